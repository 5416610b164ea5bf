"""Rules for known causes of a peak, one per file. Each computes how much the fix saves."""
