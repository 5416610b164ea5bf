"""Makes a planned step run in the place of the model's own."""
