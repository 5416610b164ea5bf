"""Whether memory has grown since an earlier state: for continuous integration."""
