"""Properties of blocks: origin, lifetime, and address by the framework."""
