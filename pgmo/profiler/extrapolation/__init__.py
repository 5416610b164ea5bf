"""From profiles at small sizes to one at a size that was never run."""
