"""Compiles what derives from a framework's own classes, on the user's machine."""
