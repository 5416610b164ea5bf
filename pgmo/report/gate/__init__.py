"""Check of memory growth since an earlier state, for continuous integration."""
