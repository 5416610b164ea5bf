"""Replay: the engine, the adapters that put it under a framework, and the session that drives both."""
