"""The networks of bench/recompute.py: a module that returns its loss, and what it is called with.

`BLOCKS` are what per-block checkpointing forgets: the blocks that people put under it by hand.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional


def _conv(inputs: int, outputs: int, size: int = 3, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


class Double(nn.Sequential):
    """Two convolutions of a U-Net."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(_conv(inputs, outputs), _conv(outputs, outputs))


class UNet(nn.Module):
    """Ronneberger et al. 2015, with batch normalisation; four levels."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        widths = [width << level for level in range(5)]
        self.down = nn.ModuleList(map(Double, [1, *widths[:-2]], widths[:-1]))
        self.bottom = Double(widths[-2], widths[-1])
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[-2::-1])
        self.merge = nn.ModuleList(Double(2 * w, w) for w in widths[-2::-1])
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, images: Tensor, masks: Tensor) -> Tensor:
        x, skips = images, []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = functional.max_pool2d(x, 2)
        x = self.bottom(x)
        for up, merge in zip(self.up, self.merge, strict=True):
            x = merge(torch.cat([skips.pop(), up(x)], 1))
        return functional.binary_cross_entropy_with_logits(self.head(x), masks)


class Classifier(nn.Module):
    """Features, mean over the image, a linear layer, cross entropy."""

    def __init__(self, features: nn.Module, width: int) -> None:
        super().__init__()
        self.features, self.head = features, nn.Linear(width, 10)

    def forward(self, images: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(self.head(self.features(images).mean((2, 3))), labels)


class Bottleneck(nn.Module):
    """He et al. 2016, figure 5, right."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            _conv(inputs, width, 1),
            _conv(width, width, 3, stride),
            nn.Conv2d(width, 4 * width, 1, bias=False),
            nn.BatchNorm2d(4 * width),
        )
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != 4 * width:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
            )

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.body(x) + self.shortcut(x))


def resnet(width: int = 32) -> nn.Module:
    """ResNet-50's blocks at half its width."""
    layers: list[nn.Module] = [_conv(3, width, 3, 2)]
    inputs = width
    for stage, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            outputs = width << stage
            layers.append(Bottleneck(inputs, outputs, 2 if stage and not block else 1))
            inputs = 4 * outputs
    return Classifier(nn.Sequential(*layers), inputs)


class DenseLayer(nn.Module):
    """Huang et al. 2017, section 3: a bottleneck, and what it makes is added to its input."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.norm = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU())
        self.body = nn.Sequential(
            _conv(inputs, 4 * growth, 1), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)
        )

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.body[1](self.body[0](self.norm(x)))], 1)


def densenet(growth: int = 12) -> nn.Module:
    """Four dense blocks with transitions that halve."""
    width = 2 * growth
    layers: list[nn.Module] = [_conv(3, width)]
    for block, count in enumerate((4, 8, 12, 8)):
        if block:
            layers += [_conv(width, width // 2, 1), nn.AvgPool2d(2)]
            width //= 2
        for _ in range(count):
            layers.append(DenseLayer(width, growth))
            width += growth
    return Classifier(nn.Sequential(*layers), width)


class Layer(nn.Module):
    """A transformer's layer, normalised before, with dropout."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.project(self.norm1(x)).view(batch, length, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.dropout(self.mix(seen.transpose(1, 2).reshape(batch, length, width)))
        return x + self.dropout(self.narrow(functional.gelu(self.widen(self.norm2(x)))))


class GPT(nn.Module):
    """Twelve layers of width 256, with dropout."""

    def __init__(self, width: int = 256, layers: int = 12, vocabulary: int = 4096) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.Sequential(*(Layer(width, 8) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Tensor, following: Tensor) -> Tensor:
        logits = self.head(self.norm(self.layers(self.tokens(tokens))))
        return functional.cross_entropy(logits.flatten(0, 1), following.flatten())


BLOCKS = (Double, Bottleneck, DenseLayer, Layer)
NAMES = ("unet", "resnet", "densenet", "gpt")


def make(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A seeded network of that name, and a batch."""
    torch.manual_seed(0)
    if name == "unet":
        masks = torch.rand(4, 1, 128, 128).round()
        return UNet(), (torch.randn(4, 1, 128, 128), masks)
    if name == "gpt":
        tokens = torch.randint(4096, (4, 129))
        return GPT(), (tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
    images = 64 if name == "resnet" else 32
    network = resnet() if name == "resnet" else densenet()
    return network, (torch.randn(16, 3, images, images), torch.randint(10, (16,)))
