"""Observer in the process of a rehearsed script, and changes of the script from outside.

The process runs `python -m pgmo.fit.observer SPEC SCRIPT ...`.
"""
