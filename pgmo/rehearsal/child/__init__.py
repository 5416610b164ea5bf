"""Process in which a script is rehearsed."""
