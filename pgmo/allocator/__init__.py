"""Sessions, which record and serve requests, and adapters for the allocators of frameworks."""
