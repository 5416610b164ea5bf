"""The process that a script is rehearsed in."""
