"""Memory of a job at batches and in steps that were not rehearsed."""
