"""Small programs of the kinds that people write first: a network, its data, one training step.

nanogpt   a GPT, batches of text            mnist   two convolutions, an evaluation after each epoch
unet      segmentation with skips           lstm    a language model, backpropagation through time
dcgan     two networks, two optimizers      vit     images as patches, a transformer's encoder

Each is written as its tutorials have it, at sizes of a CPU.
"""

import itertools
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

Step = Callable[[int], Tensor]


class Attention(nn.Module):
    """Causal attention of nanoGPT, by its own softmax."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Of (batch, length, width)."""
        batch, length, width = x.shape
        split = self.project(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = split.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) / (width // self.heads) ** 0.5
        mask = torch.triu(torch.ones(length, length, dtype=torch.bool), 1)
        mixed = scores.masked_fill(mask, float("-inf")).softmax(-1) @ value
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    """Attention and a feed-forward network, each with a residual."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.feed = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(0.1)
        )

    def forward(self, x: Tensor) -> Tensor:
        """Of (batch, length, width)."""
        x = x + self.attention(self.before(x))
        return x + self.feed(self.between(x))


class GPT(nn.Module):
    """Characters to characters."""

    def __init__(self, words: int = 65, width: int = 192, blocks: int = 4) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(256, width)
        self.blocks = nn.Sequential(*(Block(width, 6) for _ in range(blocks)))
        self.head = nn.Linear(width, words)

    def forward(self, tokens: Tensor) -> Tensor:
        """Of (batch, length)."""
        places = self.places(torch.arange(tokens.shape[1]))
        return self.head(self.blocks(self.words(tokens) + places))


def nanogpt() -> Step:
    """Batches of 12 x 128 characters, AdamW, clipped gradients."""
    model = GPT()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    text = torch.randint(65, (20_000,))

    def step(_number: int) -> Tensor:
        starts = torch.randint(len(text) - 129, (12,))
        rows = torch.stack([text[start : start + 129] for start in starts])
        loss = functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss.detach()

    return step


def _twice(inputs: int, outputs: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for channels in (inputs, outputs):
        layers += [nn.Conv2d(channels, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*layers)


class UNet(nn.Module):
    """Four depths with skip connections."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        widths = [width, 2 * width, 4 * width, 8 * width]
        self.down = nn.ModuleList(map(_twice, [3, *widths[:-1]], widths))
        self.rise = nn.ModuleList(
            nn.ConvTranspose2d(2 * one, one, 2, 2) for one in reversed(widths[:-1])
        )
        self.up = nn.ModuleList(_twice(2 * one, one) for one in reversed(widths[:-1]))
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Of (batch, 3, height, width)."""
        skips = []
        for number, down in enumerate(self.down):
            x = down(functional.max_pool2d(x, 2) if number else x)
            skips.append(x)
        skips.pop()
        for rise, up in zip(self.rise, self.up, strict=True):
            x = up(torch.cat([skips.pop(), rise(x)], 1))
        return self.head(x)


def unet() -> Step:
    """Batches of 4 images of 96 x 96, RMSprop with momentum."""
    model = UNet()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-4, momentum=0.9)

    def step(_number: int) -> Tensor:
        images, masks = torch.rand(4, 3, 96, 96), torch.rand(4, 1, 96, 96).round()
        loss = functional.binary_cross_entropy_with_logits(model(images), masks)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def dcgan() -> Step:
    """Batches of 16 images of 64 x 64, a discriminator and a generator in turn."""
    width = 24
    sizes = [100, 8 * width, 4 * width, 2 * width, width]
    layers: list[nn.Module] = []
    for number, (inputs, outputs) in enumerate(itertools.pairwise(sizes)):
        stride, padding = (2, 1) if number else (1, 0)
        layers += [nn.ConvTranspose2d(inputs, outputs, 4, stride, padding, bias=False)]
        layers += [nn.BatchNorm2d(outputs), nn.ReLU(True)]
    generator = nn.Sequential(*layers, nn.ConvTranspose2d(width, 3, 4, 2, 1), nn.Tanh())
    sizes, layers = [3, width, 2 * width, 4 * width, 8 * width], []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Conv2d(inputs, outputs, 4, 2, 1), nn.LeakyReLU(0.2, inplace=True)]
    critic = nn.Sequential(*layers, nn.Conv2d(8 * width, 1, 4), nn.Flatten(0), nn.Sigmoid())
    first = torch.optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
    second = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    right, wrong = torch.ones(16), torch.zeros(16)

    def step(_number: int) -> Tensor:
        critic.zero_grad()
        functional.binary_cross_entropy(critic(torch.rand(16, 3, 64, 64)), right).backward()
        made = generator(torch.randn(16, 100, 1, 1))
        functional.binary_cross_entropy(critic(made.detach()), wrong).backward()
        first.step()
        generator.zero_grad()
        loss = functional.binary_cross_entropy(critic(made), right)
        loss.backward()
        second.step()
        return loss.detach()

    return step


def mnist() -> Step:
    """Batches of 64 images of 28 x 28, Adadelta, an evaluation of 256 after every fourth step."""
    model = nn.Sequential(
        *(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Dropout(0.25), nn.Flatten(), nn.Linear(9216, 128), nn.ReLU(), nn.Dropout(0.5)),
        *(nn.Linear(128, 10), nn.LogSoftmax(1)),
    )
    optimizer = torch.optim.Adadelta(model.parameters(), lr=1.0)

    def step(number: int) -> Tensor:
        images, labels = torch.rand(64, 1, 28, 28), torch.randint(10, (64,))
        optimizer.zero_grad()
        loss = functional.nll_loss(model(images), labels)
        loss.backward()
        optimizer.step()
        if number % 4 == 3:
            model.eval()
            with torch.no_grad():
                model(torch.rand(256, 1, 28, 28))
            model.train()
        return loss.detach()

    return step


def lstm() -> Step:
    """Batches of 20 x 35 words, two layers of 200, as in PyTorch's word language model."""
    words, width = 2_000, 200
    embed, layers = nn.Embedding(words, width), nn.LSTM(width, width, 2, dropout=0.2)
    model = nn.ModuleList([embed, layers, nn.Linear(width, words)])
    state = [torch.zeros(2, 20, width), torch.zeros(2, 20, width)]

    def step(_number: int) -> Tensor:
        batch = torch.randint(words, (36, 20))
        model.zero_grad()
        out, after = layers(embed(batch[:-1]), (state[0].detach(), state[1].detach()))
        state[:] = after
        loss = functional.cross_entropy(model[2](out).flatten(0, 1), batch[1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(parameter.grad, alpha=-1.0)
        return loss.detach()

    return step


def vit() -> Step:
    """Batches of 16 images of 32 x 32 in patches of 4, six layers of 128."""
    width = 128
    patches = nn.Conv2d(3, width, 4, 4)
    layer = nn.TransformerEncoderLayer(width, 4, 512, batch_first=True, activation="gelu")
    encoder = nn.TransformerEncoder(layer, 6, enable_nested_tensor=False)
    head = nn.Linear(width, 10)
    model = nn.ModuleList([patches, encoder, head])
    places = nn.Parameter(torch.zeros(1, 64, width))
    optimizer = torch.optim.AdamW([*model.parameters(), places], lr=1e-3)

    def step(_number: int) -> Tensor:
        images, labels = torch.rand(16, 3, 32, 32), torch.randint(10, (16,))
        rows = encoder(patches(images).flatten(2).transpose(1, 2) + places)
        loss = functional.cross_entropy(head(rows.mean(1)), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


PROGRAMS: dict[str, Callable[[], Step]] = {
    one.__name__: one for one in (nanogpt, unet, dcgan, mnist, lstm, vit)
}
