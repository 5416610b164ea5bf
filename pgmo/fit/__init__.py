"""Prediction whether a job fits on a card, at which batch, and which change makes it fit.

    answer = pgmo.fit("train.py", card="RTX 4090", vary="--batch-size {}")

The package itself is callable.

    question          call, ask, answer
    one rehearsal     evidence, categories; the package observer, in the script's process
    any batch         the package laws; largest, two_values; batch_size, for the running script
    alternatives      the package what_if: changes of the script, other cards, time
    out of memory     the package next_plan
    tables and page   rows; the package page
"""

from pgmo.fit import package as _package  # makes this module callable

__all__ = ["Need", "accumulate", "table"]

del _package
