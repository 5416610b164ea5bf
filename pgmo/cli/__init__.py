"""The command line: `pgmo`, one sub-command a file; a file's docstring is its help."""
