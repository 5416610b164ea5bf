"""Replay: adapters that install the engine under a framework, and sessions that drive it."""
