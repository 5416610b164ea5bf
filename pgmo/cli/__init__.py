"""Command line of pgmo: one sub-command per file, whose module docstring is its help."""
