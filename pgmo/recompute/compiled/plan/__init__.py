"""The plan of a whole step, and the share of each of its graphs."""
