"""HTML page of an answer: one file, without scripts and external resources."""
