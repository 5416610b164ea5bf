"""What a vision transformer needs at 224 x 224 pixels, told from 32, 48 and 64 before it is run.

    python examples/image_size.py
    python examples/image_size.py --small 16 24 32 --large 96

An image of side s is a sequence of (s / 8)^2 patches, and attention has scores for each pair of
them: 16 tokens at 32 pixels, 784 at 224, 2,401 times as many scores. Recordings at the small sizes
show how every request follows from the number of tokens. What they predict of the large one is
printed first; then it is really run, and both are compared.
"""

import argparse

import torch
from torch import Tensor, nn
from torch.nn import functional

import pgmo
from pgmo.units import format_bytes

PATCH = 8


class Block(nn.Module):
    """Attention and a perceptron, each added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.project, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Gives features (batch, tokens, width)."""
        batch, tokens, width = x.shape
        parts = self.project(self.norms[0](x)).view(batch, tokens, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        weights = torch.softmax(query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5, -1)
        x = x + self.mix((weights @ value).transpose(1, 2).reshape(batch, tokens, width))
        y: Tensor = x + self.narrow(functional.gelu(self.widen(self.norms[1](x))))
        return y


class VisionTransformer(nn.Module):
    """Patches, blocks, and the mean of what they say (Dosovitskiy et al. 2021, section 3.1)."""

    def __init__(self, width: int = 64, heads: int = 2, layers: int = 3, side: int = 224) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, PATCH, PATCH)
        self.places = nn.Parameter(torch.zeros((side // PATCH) ** 2, width))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.classify = nn.Linear(width, 10)

    def forward(self, images: Tensor) -> Tensor:
        """Gives logits (batch, 10) for images (batch, 3, side, side)."""
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = self.blocks(x + self.places[: x.shape[1]])
        logits: Tensor = self.classify(x.mean(dim=1))
        return logits


def train(side: int, largest: int, batch: int, plan: pgmo.Plan | None = None) -> pgmo.Session:
    """Trains for some iterations: recording, or from the plan of a predicted profile."""
    torch.manual_seed(0)
    model = VisionTransformer(side=largest)
    optimizer = torch.optim.AdamW(model.parameters())
    with pgmo.optimize(device="cpu", plan=plan, record_only=plan is None) as session:
        for _ in range(5 if plan is None else 3):
            with session.iteration():
                images, labels = torch.randn(batch, 3, side, side), torch.randint(10, (batch,))
                optimizer.zero_grad()
                functional.cross_entropy(model(images), labels).backward()
                optimizer.step()
    return session


def main() -> None:
    """Records small images, predicts the large one, and compares."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--small", type=int, nargs="+", default=[32, 48, 64], help="pixels")
    parser.add_argument("--large", type=int, default=224, help="pixels")
    parser.add_argument("--batch", type=int, default=2)
    args = parser.parse_args()
    tokens = [(side // PATCH) ** 2 for side in args.small]
    recorded = [train(side, args.large, args.batch) for side in args.small]
    steady = pgmo.extrapolate([one.profile for one in recorded], tokens=tokens)
    opening = pgmo.extrapolate([one.opening for one in recorded], tokens=tokens)
    print(steady)

    wanted = (args.large // PATCH) ** 2
    plan = pgmo.plan(steady.at(tokens=wanted), opening=opening.at(tokens=wanted))
    arena = plan.arena
    small = pgmo.plan(recorded[0].profile).arena
    print(f"{args.small[0]:4} pixels: {format_bytes(small):>9}, recorded")
    print(f"{args.large:4} pixels: {format_bytes(arena):>9}, predicted, {arena / small:.0f} times")

    session = train(args.large, args.large, args.batch, plan)
    truth = pgmo.plan(train(args.large, args.large, args.batch).profile).arena
    print(f"{args.large:4} pixels: {format_bytes(truth):>9}, recorded")
    print(f"error: {arena / truth - 1:+.2%}")
    first = session.history[0].planned_bytes_rate
    print(f"begun from it: {first:.1%} of the first iteration's planned bytes from slots")


if __name__ == "__main__":
    main()
