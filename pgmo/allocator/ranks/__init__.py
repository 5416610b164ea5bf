"""Several processes that train together: what their sessions share, and where that is kept."""
