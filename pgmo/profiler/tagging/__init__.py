"""Who asks for each block: module, operator and phase."""
