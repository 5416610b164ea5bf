"""A loop like nanoGPT's `train.py`: micro-batches, clipping, a cosine schedule, evaluations.

Source: https://github.com/karpathy/nanoGPT
"""

import math
from contextlib import nullcontext

import torch
from torch import Tensor, nn
from torch.nn import functional

from programs.common.running import arguments, device, finish

given = arguments()
where = device()
layers, heads, width = given.choose((4, 4, 128), (2, 2, 32))
batch, length, vocabulary = given.choose((6, 96, 512), (2, 16, 64))
accumulation, evaluate_every, evaluated = 2, 20, 3
rate, warmup = 1e-3, 10


class Block(nn.Module):
    """Attention and a feed-forward net."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        """Return hidden states, shape (batch, length, width)."""
        rows, columns, _ = x.shape
        parts = self.attend(self.before(x)).split(width, dim=2)
        split = (part.view(rows, columns, heads, -1).transpose(1, 2) for part in parts)
        seen = functional.scaled_dot_product_attention(*split, is_causal=True)
        seen = seen.transpose(1, 2).contiguous().view(rows, columns, width)
        x = x + self.dropout(self.project(seen))
        wide = functional.gelu(self.widen(self.between(x)))
        return x + self.dropout(self.narrow(wide))


class GPT(nn.Module):
    """GPT with tied embeddings and learned positions."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.tokens.weight = self.head.weight

    def forward(self, tokens: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.size(1), device=where))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.last(x))
        return logits, functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


data = torch.randint(vocabulary, (20_000,))
context = torch.autocast("cuda", torch.bfloat16) if where.type == "cuda" else nullcontext()


def get_batch() -> tuple[Tensor, Tensor]:
    """Return tokens and next tokens, both of shape (batch, length)."""
    begins = torch.randint(len(data) - length, (batch,)).tolist()
    x = torch.stack([data[begin : begin + length] for begin in begins])
    y = torch.stack([data[begin + 1 : begin + 1 + length] for begin in begins])
    return x.to(where), y.to(where)


@torch.no_grad()
def estimate_loss() -> float:
    """Return the mean loss of a few batches."""
    model.eval()
    found = torch.zeros(evaluated)
    for at in range(evaluated):
        with context:
            _, loss = model(*get_batch())
        found[at] = loss.item()
    model.train()
    return found.mean().item()


model = GPT().to(where)
decayed = [one for one in model.parameters() if one.dim() >= 2]
others = [one for one in model.parameters() if one.dim() < 2]
optimizer = torch.optim.AdamW(
    [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=rate
)
losses = []
x, y = get_batch()
for iteration in range(given.steps):
    progress = iteration / given.steps
    cosine = 0.5 * (1 + math.cos(math.pi * progress))
    for group in optimizer.param_groups:
        group["lr"] = rate * min(1.0, (iteration + 1) / warmup) * cosine
    if iteration % evaluate_every == 0:
        losses.append(estimate_loss())
    for _ in range(accumulation):
        with context:
            logits, loss = model(x, y)
            loss = loss / accumulation
        x, y = get_batch()
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    losses.append(loss.item() * accumulation)
finish(given, model, losses)
