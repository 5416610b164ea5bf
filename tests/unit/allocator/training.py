"""A small network with a few MiB of optimizer state, for tests that move it; needs torch."""

import torch
from torch import nn
from torch.nn import functional

WIDTH = 512


class Training:
    """Trains on synthetic data, the same for the same arguments.

    Args:
        optimizer: makes one from parameters.
        zero_grad: when gradients are dropped: at the very "top" of a step, once the "batch" is
            there, at its "end", or "never": they are zeroed then, and live on.
        model: the network; for inputs of shape (batch, 256) and ten classes.
    """

    def __init__(self, optimizer=torch.optim.Adam, zero_grad="batch", model=None):
        torch.manual_seed(0)
        self.model = nn.Sequential(
            *(nn.Linear(256, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU()),
            nn.Linear(WIDTH, 10),
        )
        if model is not None:
            self.model = model()
        self.optimizer = optimizer(self.model.parameters(), lr=1e-3)
        self.zero_grad = zero_grad
        self.generator = torch.Generator().manual_seed(0)
        self.losses = []

    def step(self, batch=16):
        if self.zero_grad == "top":
            self.optimizer.zero_grad()
        inputs = torch.randn(batch, 256, generator=self.generator)
        labels = torch.randint(0, 10, (batch,), generator=self.generator)
        if self.zero_grad in ("batch", "never"):
            self.optimizer.zero_grad(set_to_none=self.zero_grad == "batch")
        loss = functional.cross_entropy(self.model(inputs), labels)
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())
        if self.zero_grad == "end":
            self.optimizer.zero_grad()

    def state(self):
        """The optimizer's tensors, in order."""
        return [
            value
            for state in self.optimizer.state.values()
            for value in state.values()
            if isinstance(value, torch.Tensor)
        ]

    def gradients(self):
        return [one.grad for one in self.model.parameters() if one.grad is not None]


def trained(times, **options):
    """Without a session."""
    training = Training(**options)
    for _ in range(times):
        training.step()
    return training


def run(training, session, times, **options):
    for _ in range(times):
        with session.iteration():
            training.step(**options)


def assert_same(one, other):
    assert one.losses == other.losses
    for left, right in zip(
        (*one.model.parameters(), *one.state(), *one.gradients()),
        (*other.model.parameters(), *other.state(), *other.gradients()),
        strict=True,
    ):
        assert torch.equal(left, right)


def size_of(tensors):
    return sum(one.untyped_storage().nbytes() for one in tensors)
