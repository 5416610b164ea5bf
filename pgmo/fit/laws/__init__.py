"""Memory of a job at other batches and in later steps than the rehearsed ones."""
