"""Entry point of `python -m pgmo`, equal to the command `pgmo`."""

import sys

from pgmo.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
