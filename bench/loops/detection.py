"""Detector for images of any size, padded to the largest of each batch, with any objects."""

import itertools

import torch
from torch import Tensor, nn
from torch.nn import functional

from loops import Setting
from loops.loop import BFLOAT16, Loop, adamw, loaded, zeros

GRAIN = 32  # pixels; sides are padded to its multiples


class Stage(nn.Module):
    """Two residual convolutions."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.GroupNorm(8, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return features, shape (batch, width, height, width of the picture)."""
        result: Tensor = x + self.second(functional.relu(self.norm(self.first(x))))
        return result


class Backbone(nn.Module):
    """Four levels at halved resolutions, projected to one width."""

    def __init__(self, widths: tuple[int, ...], wide: int) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, widths[0], 4, stride=4)
        self.stages = nn.ModuleList(Stage(width) for width in widths)
        pairs = itertools.pairwise(widths)
        self.halves = nn.ModuleList(nn.Conv2d(one, two, 2, stride=2) for one, two in pairs)
        self.levels = nn.ModuleList(nn.Conv2d(width, wide, 1) for width in widths)

    def forward(self, x: Tensor) -> list[Tensor]:
        """Return the levels of pictures (batch, 3, height, width), the finest first."""
        x, found = self.stem(x), []
        for number, stage in enumerate(self.stages):
            x = stage(x)
            found.append(self.levels[number](x))
            if number < len(self.halves):
                x = self.halves[number](x)
        return found


class Detection(Loop):
    """Training on two images of 480 to 800 by up to 1,333 pixels, with up to 512 proposals each."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        widths, wide = setting.choose(((64, 128, 256, 512), 256), ((8, 16, 16, 16), 16))
        with torch.device("cuda"):
            self.backbone = Backbone(widths, wide)
            self.anchors = nn.Conv2d(wide, 15, 3, padding=1)
            self.head = nn.Sequential(
                nn.Linear(wide * 49, 4 * wide), nn.ReLU(), nn.Linear(4 * wide, 91 * 5)
            )
        self.optimizer = adamw([self.backbone, self.anchors, self.head])

    def sides(self) -> tuple[int, int]:
        """Return height and width of the padded batch; sides, ratios and orientations are drawn."""
        shortest, longest = self.setting.choose((480, 1333), (64, 160))
        largest = [0, 0]
        for _ in range(2):
            short = self.chance.choice(range(shortest, longest * 3 // 5 + 1, GRAIN))
            size = [short, min(longest, int(short * self.chance.uniform(1.0, 1.8)))]
            self.chance.shuffle(size)
            largest = [max(pair) for pair in zip(largest, size, strict=True)]
        high, wide = (-(-side // GRAIN) * GRAIN for side in largest)
        return high, wide

    def step(self, iteration: int) -> None:
        pictures = loaded(2, 3, *self.sides(), kind=torch.float32)
        with torch.autocast("cuda", BFLOAT16):
            levels = self.backbone(pictures)
            loss = sum(functional.softplus(self.anchors(level)).mean() for level in levels)
            for picture in range(2):
                loss = loss + self.second_stage(levels, picture)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def second_stage(self, levels: list[Tensor], picture: int) -> Tensor:
        """Return the loss of one picture's proposals, each pooled to 7 by 7 from its level."""
        loss = zeros(1, kind=torch.float32).sum()
        for level in levels:
            count = self.chance.randint(0, self.setting.choose(128, 8))
            if not count:
                continue
            flat = level[picture].flatten(1).t()
            pooled = flat[zeros(count * 49)].view(count, -1)
            loss = loss + functional.cross_entropy(self.head(pooled), zeros(count))
        return loss
