"""Command line of pgmo. Each sub-command is a file, and its module docstring is the help."""
