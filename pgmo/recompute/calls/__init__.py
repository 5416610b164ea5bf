"""Calls of a model: their signatures, refusals, and the state that a capture restores."""
