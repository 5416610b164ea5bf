"""Files of each kind with harmful changes."""
