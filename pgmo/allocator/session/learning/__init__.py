"""Analysis of recorded iterations, and the decision whether a plan saves memory."""
