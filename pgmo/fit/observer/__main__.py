"""Entry point `python -m pgmo.fit.observer SPEC SCRIPT ...`, which a rehearsal runs."""

import sys

from pgmo.fit.observer.run import main

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
