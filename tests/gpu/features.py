"""The small programs again, each with something that PyTorch's users rely on."""

from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, TensorDataset

from tests.gpu.programs import GPT, Perceptron, ResNet

if TYPE_CHECKING:
    from collections.abc import Iterator


class Offloaded(GPT):
    """Keeps what the backward pass needs in pinned host memory."""

    def loss(self, batch: list[torch.Tensor]) -> torch.Tensor:
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            return super().loss(batch)


class Checkpointed(GPT):
    """Computes each layer's activations again in the backward pass."""

    def through(self, layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(layer, x, use_reentrant=False)


class MixedPrecision(GPT):
    """Half precision with a scaled loss."""

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
    """cuDNN tries its algorithms, with workspaces as large as the allocator says it can give."""

    def step(self, index: int) -> torch.Tensor:
        torch.backends.cudnn.deterministic = False
        torch.backends.cudnn.benchmark = True
        return super().step(index)


class Loaded(Perceptron):
    """Batches from a DataLoader that pins them, copied without waiting."""

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
    """A function of the output that allocates, beside what a graph or compiled code does."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x * 2).relu().sum(dim=1)


class Graphed(Perceptron):
    """Captures forward, backward and optimizer in a graph, and replays it each step after.

    Around it every step allocates eagerly, so that the session has something to plan.
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
        """As torch's documentation has it: warm up on a side stream, then capture."""
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
    """Captures when the session replays."""

    capture_at = 9


class Compiled(Perceptron):
    """The model compiled; eager work around it as in `Graphed`."""

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
    """Compiled code in CUDA graphs."""

    mode = "reduce-overhead"
