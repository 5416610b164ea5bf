"""What this machine has, what keeps pgmo from working on it, and what to do about that."""
