"""Observer in the process of a rehearsed script. It can also change the script from outside.

The process runs `python -m pgmo.fit.observer SPEC SCRIPT ...`.
"""
