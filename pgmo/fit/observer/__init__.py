"""Observer inside the process of a rehearsed script; it can make one change in the script.

The process runs `python -m pgmo.fit.observer SPEC SCRIPT ...`. `run.py` runs the script, `watch.py`
follows its iterations, `census.py` finds parameters, gradients and states, `work.py` counts
arithmetic, and `changes.py` makes the change that a question asks about.
"""
