"""Recurrent language model of two layers of LSTM cells, unrolled in Python.

The number of requests, and that of live activations, depends on the length of the batch.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from loops import Setting
from loops.loop import BFLOAT16, Loop, adamw, longest_of_batch, zeros

BATCH = 64


class Recurrent(Loop):
    """Training of LSTM cells of width 1,536, with logits over 16,000 words at each time step."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.width, words, self.longest = setting.choose((1536, 16000, 160), (64, 256, 16))
        with torch.device("cuda"):
            self.embed = nn.Embedding(words, self.width)
            self.cells = nn.ModuleList(nn.LSTMCell(self.width, self.width) for _ in range(2))
            self.head = nn.Linear(self.width, words)
        self.modules = [self.embed, self.cells, self.head]
        self.optimizer = adamw(self.modules, fused=True)

    def step(self, iteration: int) -> None:
        length = longest_of_batch(self.chance, BATCH, self.longest, median=self.longest / 5)
        tokens = zeros(BATCH, length)
        with torch.autocast("cuda", BFLOAT16):
            loss = self.unroll(tokens)
        loss.backward()
        parameters = [one for module in self.modules for one in module.parameters()]
        nn.utils.clip_grad_norm_(parameters, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()

    def unroll(self, tokens: Tensor) -> Tensor:
        """Return the mean loss over tokens, shape (batch, length)."""
        states: list[tuple[Tensor, Tensor] | None] = [None, None]
        loss = torch.zeros((), device="cuda")
        for now, following in zip(tokens.unbind(1), tokens.roll(-1, 1).unbind(1), strict=True):
            x = self.embed(now)
            for number, cell in enumerate(self.cells):
                x, memory = cell(x, states[number])
                states[number] = (x, memory)
            loss = loss + functional.cross_entropy(self.head(x), following)
        return loss / tokens.shape[1]
