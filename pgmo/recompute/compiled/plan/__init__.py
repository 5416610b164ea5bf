"""Plan of a step with several graphs."""
