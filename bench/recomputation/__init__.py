"""Training steps with less memory, for the benchmarks of recomputation."""
