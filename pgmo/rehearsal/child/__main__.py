"""`python -m pgmo.rehearsal.child SPEC`: what `rehearse` starts on the stub runtime."""

import sys

from pgmo.rehearsal.child.run import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
