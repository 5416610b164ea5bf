"""What runs beside a script that is rehearsed, in its process: it looks, and may change one thing.

`python -m pgmo.fit.observer SPEC SCRIPT ...` is the process's command. `run.py` runs the script,
`watch.py` follows its iterations, `census.py` tells parameters from gradients and states, `work.py`
counts arithmetic, and `changes.py` makes the one change that a question asks about.
"""
