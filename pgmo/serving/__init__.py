"""Sessions for inference, in which each call of a model is an iteration."""
