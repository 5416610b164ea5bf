"""The page for whoever decides: one HTML file, without scripts, that loads nothing."""
