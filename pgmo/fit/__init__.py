"""Will it fit? The memory that a job needs, the cards on which it runs, and changes that help.

    answer = pgmo.fit("train.py", card="RTX 4090", vary="--batch-size {}")

The package itself is callable.

    a question        call, ask; answer, need
    one rehearsal     evidence, categories; the package observer, which runs inside the script
    any batch         law, largest, two_values; batch_size, for the running script
    what else         the package what_if: alternatives, other cards, time
    out of memory     the package next_plan
    the page          the package page
"""

from pgmo.fit import package as _package  # makes this module callable

__all__ = ["Need", "accumulate", "table"]

del _package
