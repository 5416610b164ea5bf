"""Division of events into iterations, and profiles of iterations."""
