"""Profiles: which blocks an iteration allocates, when they live, and which code requests them."""
