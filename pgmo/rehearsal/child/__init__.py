"""Code of the process in which a script is rehearsed."""
