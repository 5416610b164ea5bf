"""Detection of repeated iterations in a trace without marks."""
