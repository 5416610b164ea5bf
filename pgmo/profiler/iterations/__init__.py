"""From events to iterations, and from iterations to a profile."""
