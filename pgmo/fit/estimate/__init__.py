"""What a step needs of a card, from tensors without storage: no GPU, no CUDA build of torch."""

from pgmo.fit.estimate.estimate import estimate, estimate_script
from pgmo.fit.estimate.result import Estimate

__all__ = ["Estimate", "estimate", "estimate_script"]
