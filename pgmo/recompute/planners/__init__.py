"""What to compute again: from a graph and a budget to a choice. Never imports torch."""
