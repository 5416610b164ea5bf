"""Other ways to train, other cards, and the time on each card."""
