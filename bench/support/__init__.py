"""Code that benchmarks share: machine, results, jobs on the stub, the page of results."""
