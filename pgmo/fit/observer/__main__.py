"""`python -m pgmo.fit.observer SPEC SCRIPT ...`: what a rehearsal is told to run."""

import sys

from pgmo.fit.observer.run import main

if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
