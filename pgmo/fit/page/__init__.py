"""Report page of an answer: one HTML file without scripts that loads nothing."""
