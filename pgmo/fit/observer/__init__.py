"""Observer inside the process of a rehearsed script; it can make one change in the script.

The process runs `python -m pgmo.fit.observer SPEC SCRIPT ...`.
"""
