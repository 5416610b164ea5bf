"""Tags that name the origin of each block: module, operator and phase."""
