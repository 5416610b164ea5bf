"""Several jobs on one card, for `sharing.py`: stages of a loop, and trainings that take turns."""

STAGES = ("stages",)
TRAININGS = ("turns", "threads")
PROCESSES = ("processes",)
NAMES = (*STAGES, *TRAININGS, *PROCESSES)
