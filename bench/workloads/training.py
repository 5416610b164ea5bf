"""Base class of workloads: one step of training or of inference."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import Tensor, nn, optim
from torch.utils.checkpoint import checkpoint

from workloads import Shape


class Training(ABC):
    """Network, its optimizer and its input.

    Attributes:
        optimizer: returns an optimizer of the parameters.
        precision: type of the forward pass; with float32, autocast is off.
    """

    optimizer: ClassVar[Callable[..., optim.Optimizer]] = optim.AdamW
    precision: ClassVar[torch.dtype] = torch.bfloat16

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        with torch.device("cuda"):
            self.model = self.build(shape).train(shape.train)
        self.optimize = type(self).optimizer(self.model.parameters())

    @abstractmethod
    def build(self, shape: Shape) -> nn.Module:
        """Build the model on torch's default device."""

    @abstractmethod
    def batch(self, length: int) -> tuple[Tensor, ...]:
        """Make an input of `length` tokens; networks for images ignore the length."""

    @abstractmethod
    def loss(self, *batch: Tensor) -> Tensor:
        """Return the scalar loss."""

    def step(self, length: int = 0) -> None:
        """Free the gradients and train on one batch, or infer one."""
        batch = self.batch(length)
        if not self.shape.train:
            with torch.inference_mode(), self._autocast():
                self.model(*batch[:-1])
            return
        self.optimize.zero_grad(set_to_none=True)
        with self._autocast():
            loss = self.loss(*batch)
        loss.backward()
        self.optimize.step()

    def _autocast(self) -> torch.autocast:
        return torch.autocast("cuda", torch.bfloat16, self.precision is not torch.float32)


class Recomputing(nn.Module):
    """Module that keeps only its input, and runs again in the backward pass."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *inputs: Any) -> Any:
        return checkpoint(self.inner, *inputs, use_reentrant=False)


def recomputing(module: nn.Module, shape: Shape) -> nn.Module:
    """Return the module, with recomputation if the shape has it."""
    return Recomputing(module) if shape.recompute else module


def sum_of_bucket(_: None, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """Reduce a bucket as DDP does; the futures of a fake process group have no tensor."""
    dist.all_reduce(bucket.buffer(), async_op=True)
    done: torch.futures.Future[Tensor] = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done
