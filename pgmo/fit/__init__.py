"""Will it fit? What a job needs, on which card it runs, and what would make it fit.

    answer = pgmo.fit("train.py", card="RTX 4090", vary="--batch-size {}")

The package itself is the function.

    a question       call, ask; answer
    one rehearsal    evidence, categories; the package observer, which runs beside the script
    any batch        law, largest
    what if          alternatives, arithmetic
    cards and time   on_cards, timing
    what a job takes need
"""

from pgmo.fit import package as _package  # makes this module callable

__all__ = ["Need", "accumulate"]

del _package
