"""The sub-commands, one a file; a file's docstring is its help. `pgmo.cli.catalog` lists them."""
