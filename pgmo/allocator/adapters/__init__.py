"""Adapters, each of which installs the engine under one framework's allocator."""
