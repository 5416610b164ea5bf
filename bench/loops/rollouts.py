"""PPO on a language model: rollouts of any length, then three epochs over them.

An iteration generates answers with the policy, computes their log-probabilities with a frozen
reference, and trains on micro-batches of the answers. So inference and training alternate.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from loops import Setting
from loops.decoding import decode, request
from loops.llama import llama
from loops.loop import BFLOAT16, Loop, adamw

BATCH, MICRO, EPOCHS = 16, 4, 3


class Rollouts(Loop):
    """Training of a policy and a value head, with a frozen reference of the policy's size."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.policy = llama(setting, cache=True)
        self.reference = llama(setting).to(BFLOAT16).eval().requires_grad_(False)
        with torch.device("cuda"):
            self.value = nn.Linear(self.policy.config.hidden_size, 1)
        self.optimizer = adamw([self.policy, self.value], fused=True)

    def step(self, iteration: int) -> None:
        prompt, answer = request(self.chance, self.setting)
        with torch.autocast("cuda", BFLOAT16):
            tokens = decode(self.policy, BATCH, prompt // 4 + 1, answer)
            with torch.no_grad():
                old, _ = self.opinions(self.policy, tokens)
                reference, _ = self.opinions(self.reference, tokens)
        for _ in range(EPOCHS):
            for begin in range(0, BATCH, MICRO):
                part = slice(begin, begin + MICRO)
                self.train(tokens[part], old[part], reference[part])

    def opinions(self, model: nn.Module, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """Return the tokens' log-probabilities, shape (batch, length - 1), and last states."""
        seen = model(input_ids=tokens[:, :-1], use_cache=False, output_hidden_states=True)
        chosen = seen.logits.log_softmax(-1).gather(-1, tokens[:, 1:, None])
        return chosen.squeeze(-1), seen.hidden_states[-1]

    def train(self, tokens: Tensor, old: Tensor, reference: Tensor) -> None:
        """Train on one micro-batch with the clipped objective."""
        with torch.autocast("cuda", BFLOAT16):
            new, states = self.opinions(self.policy, tokens)
            value = self.value(states).squeeze(-1)
            ratio, advantage = (new - old).exp(), old - reference - value.detach()
            clipped = ratio.clamp(0.8, 1.2) * advantage
            loss = -torch.minimum(ratio * advantage, clipped).mean()
            loss = loss + functional.mse_loss(value, (old - reference).to(value.dtype))
        loss.backward()
        nn.utils.clip_grad_norm_(self.policy.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
