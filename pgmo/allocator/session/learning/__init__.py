"""What single iterations teach, and when that is worth a plan."""
