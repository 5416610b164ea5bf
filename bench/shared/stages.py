"""Rollouts with a cache that grows by a token at a time, and two training epochs on the answers.

A Llama of 200 million parameters decodes answers to 128 prompts at a time, of any length up to a
thousand tokens. The Llama is trained on eight answers at a time, with AdamW and autocast to
bfloat16.
"""

import contextlib
from contextlib import AbstractContextManager
from typing import Any

import torch
from loops import Setting
from loops.decoding import decode
from loops.llama import llama
from loops.loop import BFLOAT16, Loop, adamw

EPOCHS = 2


class Stages(Loop):
    """Loop of stages. With a session they are phases; `asleep` lets state sleep in rollouts."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.policy = llama(setting, cache=True)
        self.optimizer = adamw([self.policy], fused=True)
        self.answers = setting.choose(128, 8)
        self.part = setting.choose(8, 4)
        self.asleep = False

    def step(self, iteration: int) -> None:
        """Run one rollout, and train on it for two epochs."""
        longest = self.setting.choose(960, 48)
        prompt = self.chance.randint(longest // 2, longest)
        tokens = self.setting.choose(24, 4)
        with self.phase("rollout"), torch.autocast("cuda", BFLOAT16):
            answers = decode(self.policy, self.answers, prompt, tokens)
        with self.phase("training"):
            for _ in range(EPOCHS):
                for part in answers.split(self.part):
                    self.train(part)
                    if self.session:
                        self.session.step()

    def phase(self, name: str) -> AbstractContextManager[Any]:
        """Return a phase if there is a session, or a context that does nothing."""
        if not self.session:
            return contextlib.nullcontext()
        import pgmo

        asleep = [self.optimizer] if self.asleep and name == "rollout" else None
        return pgmo.phase(name, asleep=asleep)

    def train(self, tokens: torch.Tensor) -> None:
        """Train on one micro-batch."""
        with torch.autocast("cuda", BFLOAT16):
            loss = self.policy(input_ids=tokens, labels=tokens, use_cache=False).loss
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
