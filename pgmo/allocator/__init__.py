"""Replay: adapters that put the engine under a framework, and the session that drives it."""
