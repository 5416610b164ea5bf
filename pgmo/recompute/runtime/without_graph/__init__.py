"""Recomputation of what was not captured: by saved inputs, and by running it again."""
