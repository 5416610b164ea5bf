"""Commands about this machine: what it lacks, what pgmo keeps on it, what it saves here."""
