"""The plan of a whole step, and each graph's part of it."""
