"""Recomputation under a budget of bytes: what to forget, and when to compute it again."""
