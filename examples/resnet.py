"""Training of a small ResNet with PyTorch's own allocator and with pgmo, and a comparison.

    python examples/resnet.py
    python examples/resnet.py --save plans

Both trainings have the same seed and the same number of threads. The losses and final weights of
both have to be bit-identical. If they are not, plain PyTorch trains again, because several threads
may add numbers in another order in each run.
"""

import argparse
import contextlib
import time
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

import pgmo

BATCH, CLASSES, SIDE = 32, 10, 48
UNSTEADY = 7
"""Number of iterations that do not count for step times: recorded ones and the first replay."""


class Block(nn.Module):
    """Two 3x3 convolutions and a shortcut around them (He et al. 2016)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(outputs) for _ in range(2))
        self.shortcut = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.shortcut.append(nn.Conv2d(inputs, outputs, 1, stride, bias=False))
            self.shortcut.append(nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Return features, shape (batch, outputs, height / stride, width / stride)."""
        y = functional.relu(self.norms[0](self.first(x)))
        return functional.relu(self.norms[1](self.second(y)) + self.shortcut(x))


def resnet(width: int = 24, blocks: int = 2) -> nn.Module:
    """Build a stem, three stages of blocks at falling resolution, and a classifier."""
    layers: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1, bias=False)]
    layers += [nn.BatchNorm2d(width), nn.ReLU()]
    for before, after in pairwise((width, width, 2 * width, 4 * width)):
        layers.append(Block(before, after, 1 if before == after else 2))
        layers += [Block(after, after, 1) for _ in range(blocks - 1)]
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4 * width, CLASSES)
    )


def train(
    iterations: int, session: pgmo.Session | None = None
) -> tuple[list[float], list[Tensor], float]:
    """Train on random images; return losses, final weights, and the median step in seconds."""
    torch.manual_seed(0)
    model = resnet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses, seconds = [], []
    for _ in range(iterations):
        images, labels = torch.randn(BATCH, 3, SIDE, SIDE), torch.randint(CLASSES, (BATCH,))
        begin = time.perf_counter()
        with session.iteration() if session else contextlib.nullcontext():
            optimizer.zero_grad()
            loss = functional.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        seconds.append(time.perf_counter() - begin)
        losses.append(loss.item())
    steady = sorted(seconds[UNSTEADY:] or seconds)
    return losses, list(model.state_dict().values()), steady[len(steady) // 2]


def same(one: tuple, other: tuple) -> bool:
    """Return whether losses and weights of two trainings are bit-identical."""
    return one[0] == other[0] and all(map(torch.equal, one[1], other[1]))


def main() -> None:
    """Train both ways, and print a comparison."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--save", metavar="DIR", help="where to save resnet.pgmoprof and its plan")
    args = parser.parse_args()
    torch.set_num_threads(torch.get_num_threads())  # MKL may change the number until this call
    plain = train(args.iterations)
    with pgmo.optimize(device="cpu", save=args.save, model_name="resnet") as session:
        ours = train(args.iterations, session)
    print(session.summary())
    print(f"median step: {1e3 * plain[2]:.0f} ms by PyTorch, {1e3 * ours[2]:.0f} ms under pgmo")
    if same(plain, ours):
        print("losses and weights: the same bit for bit")
    elif not same(plain, train(args.iterations)):
        print("losses and weights: no result, because two runs of plain PyTorch differ")
    else:
        raise SystemExit("losses or weights differ from those of plain PyTorch")


if __name__ == "__main__":
    main()
