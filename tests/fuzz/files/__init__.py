"""Files of each kind, changed to harm."""
