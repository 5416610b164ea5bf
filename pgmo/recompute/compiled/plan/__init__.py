"""Plan of a step with one or several graphs."""
