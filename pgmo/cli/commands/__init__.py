"""Sub-commands, one per file. A file's docstring is the help. `pgmo.cli.catalog` lists them."""
