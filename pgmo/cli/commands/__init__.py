"""Sub-commands, one per file, whose docstring is the help. `pgmo.cli.catalog` lists them."""
