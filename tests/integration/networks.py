"""Small networks like those of papers on recomputation, each of which returns its loss.

Further small networks test predictions, because pgmo was not tuned on them.
"""

import torch
from torch import nn
from torch.nn import functional


class Classifier(nn.Module):
    """A classifier: features, mean over the image, linear layer and cross entropy."""

    def __init__(self, features, width):
        super().__init__()
        self.features, self.head = features, nn.Linear(width, 5)

    def forward(self, images, labels):
        return functional.cross_entropy(self.head(self.features(images).mean((2, 3))), labels)


def normed(inputs, outputs, size=3, stride=1):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        twice = 2 * width
        self.down = nn.Sequential(normed(1, width), normed(width, width))
        self.bottom = nn.Sequential(normed(width, twice), normed(twice, twice))
        self.up = nn.ConvTranspose2d(twice, width, 2, stride=2)
        self.merge = nn.Sequential(normed(twice, width), nn.Conv2d(width, 1, 1))

    def forward(self, images, masks):
        skip = self.down(images)
        x = self.up(self.bottom(functional.max_pool2d(skip, 2)))
        mask = self.merge(torch.cat([skip, x], 1))
        return functional.binary_cross_entropy_with_logits(mask, masks)


class Bottleneck(nn.Module):
    """A bottleneck block, as in He et al. 2016, figure 5, right."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        self.body = nn.Sequential(
            normed(inputs, width, 1),
            normed(width, width, 3, stride),
            nn.Conv2d(width, 4 * width, 1, bias=False),
            nn.BatchNorm2d(4 * width),
        )
        self.shortcut = nn.Conv2d(inputs, 4 * width, 1, stride, bias=False)

    def forward(self, x):
        return functional.relu(self.body(x) + self.shortcut(x))


def resnet():
    blocks = [normed(3, 8), Bottleneck(8, 4, 1), Bottleneck(16, 4, 1), Bottleneck(16, 6, 2)]
    return Classifier(nn.Sequential(*blocks), 24)


class Dense(nn.Module):
    """A dense block, as in Huang et al. 2017: a layer reads the outputs of all earlier ones."""

    def __init__(self, inputs, growth, layers):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Sequential(
                nn.BatchNorm2d(inputs + index * growth),
                nn.ReLU(),
                nn.Conv2d(inputs + index * growth, growth, 3, padding=1, bias=False),
            )
            for index in range(layers)
        )

    def forward(self, x):
        for layer in self.layers:
            x = torch.cat([x, layer(x)], 1)
        return x


def densenet():
    return Classifier(nn.Sequential(normed(3, 8), Dense(8, 4, 4), nn.AvgPool2d(2)), 24)


def vgg():
    layers = []
    for inputs, outputs in ((3, 6), (6, 8), (8, 16)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(inplace=True)]
        for _ in range(2):
            layers += [nn.Conv2d(outputs, outputs, 3, padding=1), nn.ReLU(inplace=True)]
        layers.append(nn.MaxPool2d(2))
    return Classifier(nn.Sequential(*layers), 16)


class Inception(nn.Module):
    """An Inception module, as in Szegedy et al. 2015, figure 2b, with four parallel paths."""

    def __init__(self, inputs):
        super().__init__()
        self.ways = nn.ModuleList(
            [
                normed(inputs, 4, 1),
                nn.Sequential(normed(inputs, 3, 1), normed(3, 6)),
                nn.Sequential(normed(inputs, 2, 1), normed(2, 4, 5)),
                nn.Sequential(nn.MaxPool2d(3, 1, 1), normed(inputs, 4, 1)),
            ]
        )

    def forward(self, x):
        return torch.cat([way(x) for way in self.ways], 1)


def googlenet():
    return Classifier(nn.Sequential(normed(3, 8), Inception(8), Inception(18)), 18)


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.project, self.mix = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.project(self.norm1(x)).view(batch, length, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.dropout(self.mix(seen.transpose(1, 2).reshape(batch, length, width)))
        fed = self.narrow(functional.gelu(self.widen(self.norm2(x))))
        return x + self.dropout(fed)


class GPT(nn.Module):
    def __init__(self, width=32, layers=2, vocabulary=50):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers = nn.Sequential(*(Layer(width, 4) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens, following):
        logits = self.head(self.norm(self.layers(self.tokens(tokens))))
        return functional.cross_entropy(logits.flatten(0, 1), following.flatten())


class UnrolledLSTM(nn.Module):
    """An LSTM, as in Hochreiter and Schmidhuber 1997, computed cell by cell."""

    def __init__(self, width=16, vocabulary=30):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.gates = nn.Linear(2 * width, 4 * width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens, following):
        state = cell = self.tokens.weight.new_zeros(tokens.shape[0], self.gates.in_features // 2)
        losses = []
        for index, token in enumerate(self.tokens(tokens).unbind(1)):
            gates = self.gates(torch.cat([token, state], 1)).chunk(4, 1)
            enter, keep, leave = (gate.sigmoid() for gate in gates[:3])
            cell = keep * cell + enter * gates[3].tanh()
            state = leave * cell.tanh()
            losses.append(functional.cross_entropy(self.head(state), following[:, index]))
        return torch.stack(losses).mean()


def images(size=16):
    return torch.randn(4, 3, size, size), torch.randint(0, 5, (4,))


def sentences(length=12, vocabulary=30):
    tokens = torch.randint(0, vocabulary, (4, length + 1))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


MAKERS = {
    "unet": (UNet, lambda: (torch.randn(2, 1, 24, 24), torch.rand(2, 1, 24, 24).round())),
    "resnet": (resnet, images),
    "densenet": (densenet, images),
    "vgg": (vgg, lambda: images(32)),
    "googlenet": (googlenet, images),
    "gpt": (GPT, sentences),
    "lstm": (UnrolledLSTM, lambda: sentences(4)),
}


def make(name):
    """Return a seeded network by its name, and a batch for it."""
    torch.manual_seed(0)
    network, batch = MAKERS[name]
    return network(), batch()


class Encoder(nn.Module):
    """A classifier of tokens by PyTorch's transformer layers, with dropout and a padding mask."""

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(48, 4, 96, dropout=0.1, batch_first=True)
        self.embed = nn.Embedding(100, 48)
        self.layers = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(48, 7)

    def forward(self, tokens):
        return self.head(self.layers(self.embed(tokens), src_key_padding_mask=tokens < 3).mean(1))

    @staticmethod
    def batch(size):
        return torch.randint(1, 100, (size, 24)), torch.randint(7, (size,))


class Mixer(nn.Module):
    """Perceptrons over patches and channels in turn, as in Tolstikhin et al. 2021."""

    def __init__(self, patches=16, width=40):
        super().__init__()
        self.embed = nn.Conv2d(3, width, 6, 6)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))
        self.mixes = nn.ModuleList(self.perceptron(n) for n in (patches, width) * 2)
        self.head = nn.Linear(width, 7)

    @staticmethod
    def perceptron(width):
        return nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, images):
        x = self.embed(images).flatten(2).transpose(1, 2)
        for number, (norm, mix) in enumerate(zip(self.norms, self.mixes, strict=True)):
            y = norm(x)
            x = x + (mix(y) if number % 2 else mix(y.transpose(1, 2)).transpose(1, 2))
        return self.head(x.mean(1))

    @staticmethod
    def batch(size):
        return torch.randn(size, 3, 24, 24), torch.randint(7, (size,))


UNSEEN = {"encoder": Encoder, "mixer": Mixer}
