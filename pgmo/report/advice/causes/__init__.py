"""Rules for known causes of a peak, one per file. Each rule computes how much its fix saves."""
