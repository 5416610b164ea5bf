"""Compilation of adapters on the user's machine, because they derive from a framework's classes."""
