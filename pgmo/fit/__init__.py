"""Will it fit? What a job needs, on which card it runs, and what would make it fit.

    answer = pgmo.fit("train.py", card="RTX 4090", vary="--batch-size {}")

The package itself is the function.

    a question        call, ask; answer, need
    one rehearsal     evidence, categories; the package observer, which runs beside the script
    any batch         law, largest; batch_size, of the script that is running
    what else         the package what_if: alternatives, other cards, time
    out of memory     the package next_plan
    the page          the package page
"""

from pgmo.fit import package as _package  # makes this module callable

__all__ = ["Need", "accumulate"]

del _package
