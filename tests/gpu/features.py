"""The small programs of `programs`, each with a further feature of PyTorch."""

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from tests.gpu.programs import GPT, Perceptron, ResNet

if TYPE_CHECKING:
    from collections.abc import Iterator


class Offloaded(GPT):
    """The GPT, with saved tensors in pinned memory of the host."""

    def loss(self, batch: list[torch.Tensor]) -> torch.Tensor:
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            return super().loss(batch)


class Checkpointed(GPT):
    """The GPT, with a checkpoint around each layer."""

    def through(self, layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(layer, x, use_reentrant=False)


class MixedPrecision(GPT):
    """The GPT in half precision, with a scaled loss."""

    def __init__(self) -> None:
        super().__init__()
        self.scaler = torch.amp.GradScaler("cuda")

    def step(self, index: int) -> torch.Tensor:
        batch = [part.cuda() for part in self.batch(index)]
        self.optimizer.zero_grad()
        with torch.autocast("cuda", torch.float16):
            loss = self.loss(batch)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss


class Benchmarked(ResNet):
    """The ResNet, for which cuDNN tries its algorithms with workspaces of many sizes."""

    def step(self, index: int) -> torch.Tensor:
        torch.backends.cudnn.deterministic = False
        torch.backends.cudnn.benchmark = True
        return super().step(index)


class Loaded(Perceptron):
    """The perceptron, with pinned batches of a DataLoader and asynchronous copies."""

    def __init__(self) -> None:
        super().__init__()
        data = TensorDataset(torch.randn(640, 256), torch.randint(10, (640,)))
        self.loader = DataLoader(data, batch_size=64, pin_memory=True, num_workers=0)
        self.batches: Iterator[list[torch.Tensor]] = iter(())

    def step(self, index: int) -> torch.Tensor:
        try:
            batch = next(self.batches)
        except StopIteration:
            self.batches = iter(self.loader)
            batch = next(self.batches)
        assert all(part.is_pinned() for part in batch)
        parts = [part.to("cuda", non_blocking=True) for part in batch]
        self.optimizer.zero_grad()
        loss = self.loss(parts)
        loss.backward()
        self.optimizer.step()
        return loss


class Flattened(nn.Module):
    """A function that allocates outside of a graph or of compiled code."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * 2).relu().sum(dim=1)


class Graphed(Perceptron):
    """The perceptron, whose step is captured in a graph, which later steps replay.

    Each step also allocates outside of the graph, so that the session has a plan.
    """

    capture_at = 1

    def __init__(self) -> None:
        super().__init__()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3, capturable=True)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.inputs = torch.zeros(64, 256, device="cuda")
        self.targets = torch.zeros(64, dtype=torch.long, device="cuda")
        self.eager = Flattened()

    def step(self, index: int) -> torch.Tensor:
        inputs, targets = self.batch(index)
        self.inputs.copy_(inputs.cuda())
        self.targets.copy_(targets.cuda())
        if index == self.capture_at:
            self.capture()
        if self.graph is None:
            self.train()
        else:
            self.graph.replay()
        return self.last + self.eager(self.inputs).mean()

    def train(self) -> None:
        self.optimizer.zero_grad()
        loss = self.loss([self.inputs, self.targets])
        loss.backward()
        self.optimizer.step()
        self.last = loss.detach()

    def capture(self) -> None:
        """Warm up on a side stream, then capture a step, as PyTorch's documentation does."""
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.train()
        torch.cuda.current_stream().wait_stream(side)
        self.graph = torch.cuda.CUDAGraph()
        self.optimizer.zero_grad()
        with torch.cuda.graph(self.graph):
            self.train()


class GraphedLate(Graphed):
    """The same with a capture while the session replays."""

    capture_at = 9


class Compiled(Perceptron):
    """The perceptron, compiled, with allocations outside of compiled code."""

    mode = "default"

    def __init__(self) -> None:
        super().__init__()
        torch.compiler.reset()
        self.compiled = torch.compile(self.model, mode=self.mode)
        self.eager = Flattened()

    def loss(self, batch: list[torch.Tensor]) -> torch.Tensor:
        inputs, targets = batch
        output = self.compiled(inputs)
        return nn.functional.cross_entropy(output, targets) + 0 * self.eager(inputs).mean()


class CompiledWithGraphs(Compiled):
    """The same with compiled code in CUDA graphs."""

    mode = "reduce-overhead"
