"""Values that wait on the host: the time of their transfers, and initial choices of a search."""
