"""What the commands print, and where."""
