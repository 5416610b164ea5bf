"""Values that wait on the host: what their transfers cost, and where a search begins."""
