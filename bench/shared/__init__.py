"""Jobs that share a card, for `sharing.py`: stages of a loop, and trainings that take turns."""

STAGES = ("stages",)
TRAININGS = ("turns", "threads")
PROCESSES = ("processes",)
NAMES = (*STAGES, *TRAININGS, *PROCESSES)
