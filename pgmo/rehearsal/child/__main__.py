"""Entry point `python -m pgmo.rehearsal.child SPEC`, which `rehearse` starts on the stub."""

import sys

from pgmo.rehearsal.child.run import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
