"""What else there is: other ways to train the same, other cards, and time on each."""
