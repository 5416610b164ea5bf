"""Properties of blocks: origin, lifetime, and address in the framework's allocator."""
