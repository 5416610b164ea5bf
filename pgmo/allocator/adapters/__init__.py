"""Adapters: the engine under the allocator of one framework each."""
