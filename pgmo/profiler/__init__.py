"""Profiles made from recorded events: what one iteration allocates, when, and from which code."""
