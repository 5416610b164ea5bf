"""Rules for known causes of a peak, by theme. A fix must save at least 1/10 of the peak."""
