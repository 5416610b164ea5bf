"""Coordination of threads, sessions and processes that share an engine or a card."""
