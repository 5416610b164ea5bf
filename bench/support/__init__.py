"""What benchmarks have in common: machine, results, jobs on the stub, the page of results."""
