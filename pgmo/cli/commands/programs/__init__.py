"""Commands that run a program or a model."""
