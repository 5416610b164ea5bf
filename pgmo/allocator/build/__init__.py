"""Compilation of adapters, which derive from a framework's own classes, on the user's machine."""
