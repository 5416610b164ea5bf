"""Captured steps on disk: what a program needs to begin where an earlier one has left off."""
