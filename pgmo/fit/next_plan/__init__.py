"""Continuation of a run that has run out of memory."""
