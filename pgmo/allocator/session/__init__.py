"""Sessions, which record, plan and serve the iterations of a program."""
