"""Rules for known causes of a peak, by theme. Each rule computes how much its fix saves."""
