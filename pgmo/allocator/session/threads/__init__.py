"""Threads, sessions and processes that share an engine, a device or a card."""
