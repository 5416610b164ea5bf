"""Memory that is given back while its owners live: sleep, waking, and phases."""
