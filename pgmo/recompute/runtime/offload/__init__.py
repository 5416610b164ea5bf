"""Values that wait on the host while a step runs: where they lie, and how they get there."""
