"""Small programs that train on the device: a GPT, a ResNet, an LSTM, a perceptron."""

from abc import ABC, abstractmethod

import torch
from torch import nn
from torch.nn import functional

VOCABULARY, WIDTH, LENGTH = 512, 128, 64


class Training(ABC):
    """A model with an optimizer, and with batches that the host makes for each step."""

    def __init__(self, model: nn.Module, optimizer: str = "AdamW") -> None:
        self.model = model.cuda()
        kind = getattr(torch.optim, optimizer)
        self.optimizer = kind(self.model.parameters(), lr=1e-3)

    def step(self, index: int) -> torch.Tensor:
        """Run a training iteration, and return its loss."""
        batch = [part.cuda() for part in self.batch(index)]
        self.optimizer.zero_grad()
        loss = self.loss(batch)
        loss.backward()
        self.optimizer.step()
        return loss

    @abstractmethod
    def batch(self, index: int) -> tuple[torch.Tensor, ...]:
        """Return the batch of an iteration, on the host."""

    def loss(self, batch: list[torch.Tensor]) -> torch.Tensor:
        inputs, targets = batch
        return functional.cross_entropy(self.model(inputs), targets)

    def state(self) -> list[torch.Tensor]:
        """Return the weights and buffers."""
        return list(self.model.state_dict().values())


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.project, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        heads = self.project(self.norm1(x)).view(batch, length, 3, 4, width // 4)
        query, key, value = heads.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + functional.dropout(self.narrow(functional.gelu(self.wide(self.norm2(x)))), 0.1)


class GPT(Training):
    """A transformer with dropout, trained with AdamW."""

    def __init__(self) -> None:
        self.layers = nn.ModuleList(Layer() for _ in range(4))
        self.embed, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)
        super().__init__(nn.ModuleList([self.embed, self.layers, self.head]))

    def batch(self, index: int) -> tuple[torch.Tensor, ...]:
        start = torch.randint(VOCABULARY, (4, 1))
        tokens = (start + torch.arange(LENGTH + 1)) % VOCABULARY
        return tokens[:, :-1], tokens[:, 1:]

    def loss(self, batch: list[torch.Tensor]) -> torch.Tensor:
        tokens, targets = batch
        x = self.embed(tokens)
        for layer in self.layers:
            x = self.through(layer, x)
        return functional.cross_entropy(self.head(x).flatten(0, 1), targets.flatten())

    def through(self, layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
        """Return a layer's output; a program with checkpoints overrides this method."""
        return layer(x)


class Residual(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.short = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.norm1(self.conv1(x)))
        return functional.relu(self.norm2(self.conv2(y)) + self.short(x))


class ResNet(Training):
    """Convolutions with batch normalisation, trained with SGD."""

    def __init__(self) -> None:
        stages = [Residual(3, 32, 1), Residual(32, 64, 2), Residual(64, 128, 2)]
        super().__init__(nn.Sequential(*stages, nn.Flatten(), nn.Linear(128 * 8 * 8, 10)), "SGD")

    def batch(self, index: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(16, 3, 32, 32), torch.randint(10, (16,))


class LSTM(Training):
    """Two layers of an LSTM, whose weights cuDNN keeps in one flat buffer."""

    def __init__(self) -> None:
        self.lstm = nn.LSTM(WIDTH, WIDTH, 2, dropout=0.1, batch_first=True)
        self.embed, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)
        super().__init__(nn.ModuleList([self.embed, self.lstm, self.head]), "Adam")

    def batch(self, index: int) -> tuple[torch.Tensor, ...]:
        tokens = torch.randint(VOCABULARY, (8, 41))
        return tokens[:, :-1], tokens[:, 1:]

    def loss(self, batch: list[torch.Tensor]) -> torch.Tensor:
        tokens, targets = batch
        output, _ = self.lstm(self.embed(tokens))
        return functional.cross_entropy(self.head(output).flatten(0, 1), targets.flatten())


class Perceptron(Training):
    """The smallest program, for tests that do not depend on the network."""

    def __init__(self) -> None:
        wide = [nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU()]
        super().__init__(nn.Sequential(*wide, nn.Linear(1024, 10)), "Adam")

    def batch(self, index: int) -> tuple[torch.Tensor, ...]:
        return torch.randn(64, 256), torch.randint(10, (64,))


PROGRAMS = {"gpt": GPT, "resnet": ResNet, "lstm": LSTM, "perceptron": Perceptron}
