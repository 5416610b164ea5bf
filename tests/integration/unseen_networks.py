"""Small networks that nothing in pgmo was tuned on: what is predicted of them is tested."""

import torch
from torch import nn
from torch.nn import functional


class Encoder(nn.Module):
    """PyTorch's own transformer layers, with dropout and a padding mask, over tokens."""

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


class Vgg(nn.Sequential):
    """Stacks of convolutions with pooling behind, then linear layers."""

    def __init__(self):
        parts, inputs = [], 3
        for outputs, count in ((12, 2), (24, 2), (40, 3)):
            for _ in range(count):
                parts += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(inplace=True)]
                inputs = outputs
            parts.append(nn.MaxPool2d(2))
        parts += [nn.Flatten(), nn.Linear(40 * 9, 64), nn.ReLU(), nn.Dropout(), nn.Linear(64, 7)]
        super().__init__(*parts)

    @staticmethod
    def batch(size):
        return torch.randn(size, 3, 24, 24), torch.randint(7, (size,))


class Mixer(nn.Module):
    """Perceptrons over patches and over channels in turn (Tolstikhin et al. 2021)."""

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

    batch = staticmethod(Vgg.batch)


NETWORKS = {"encoder": Encoder, "vgg": Vgg, "mixer": Mixer}


class Training:
    """One of the networks with AdamW, in steps."""

    def __init__(self, name, batch):
        self.model, self.size = NETWORKS[name](), batch
        self.optimizer = torch.optim.AdamW(self.model.parameters())

    def step(self):
        inputs, labels = self.model.batch(self.size)
        self.optimizer.zero_grad()
        functional.cross_entropy(self.model(inputs), labels).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
