"""Small language model, its batches, losses and training loop, which the programs share."""

import io
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

WORDS, WIDTH, LENGTH, BATCH, HEADS = 8000, 256, 256, 8, 8

Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def fused(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Return causal attention, computed by PyTorch's fused kernel."""
    return functional.scaled_dot_product_attention(query, key, value, is_causal=True)


class Block(nn.Module):
    """Block of a transformer."""

    def __init__(self, attend: Attend = fused) -> None:
        super().__init__()
        self.attend = attend
        self.joint = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the hidden states after the block, shape (batch, length, width)."""
        batch, length, _ = x.shape
        parts = self.joint(x).view(batch, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = self.attend(query, key, value).transpose(1, 2).reshape(batch, length, WIDTH)
        x = x + self.out(mixed)
        hidden: Tensor = self.mlp(x)
        return x + hidden


class Model(nn.Module):
    """Language model without its loss."""

    def __init__(self, layers: int = 4, attend: Attend = fused, words: int = WORDS) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, WIDTH)
        self.blocks = nn.ModuleList([Block(attend) for _ in range(layers)])
        self.head = nn.Linear(WIDTH, words, bias=False)

    def hidden(self, ids: Tensor) -> Tensor:
        """Return the last hidden states, shape (batch, length, width)."""
        x: Tensor = self.embedding(ids)
        for block in self.blocks:
            x = block(x)
        return x

    def forward(self, ids: Tensor) -> Tensor:
        """Return logits, shape (batch, length, words)."""
        logits: Tensor = self.head(self.hidden(ids))
        return logits


def batches(count: int, batch: int = BATCH, length: int = LENGTH) -> Iterator[Tensor]:
    """Yield batches of random token ids, shape (batch, length)."""
    for _ in range(count):
        yield torch.randint(WORDS, (batch, length), device="cuda")


def mean_of_hidden(model: Model, ids: Tensor) -> Tensor:
    """Return a loss of the hidden states, which needs no logits."""
    return model.hidden(ids).square().mean()


def mean_of_logits(model: nn.Module, ids: Tensor) -> Tensor:
    """Return a loss of the outputs of a model, which may be wrapped."""
    loss: Tensor = model(ids).square().mean()
    return loss


def cross_entropy(model: Model, ids: Tensor) -> Tensor:
    """Return the cross-entropy of the logits, with the ids as targets."""
    return functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())


def train(
    model: nn.Module,
    optimizer: torch.optim.Optimizer | None = None,
    *,
    count: int = 6,
    batch: int = BATCH,
    length: int = LENGTH,
    loss: Callable[..., Tensor] = mean_of_hidden,
) -> None:
    """Train a model with `count` batches; by default with SGD, which has no state."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    for ids in batches(count, batch, length):
        step(optimizer, loss(model, ids))


def step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """Make an optimizer step, and free loss and gradients as soon as possible."""
    loss.backward()
    del loss
    optimizer.step()
    optimizer.zero_grad()


def saved(state: object) -> io.BytesIO:
    """Return a file with a saved state."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return file
