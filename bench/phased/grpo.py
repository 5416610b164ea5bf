"""GRPO in one process: generate answers, score them with a reference, and train on them.

A Llama of 200 million parameters is trained with AdamW. 128 answers are generated at a time, with
the cache of transformers, which grows by concatenation. Either the policy generates, or an engine:
a copy in bfloat16 whose memory is in a `MemPool`. The engine gets the policy's weights before it
generates.
"""

import contextlib
from contextlib import AbstractContextManager
from typing import Any

import torch
from loops import Setting
from loops.decoding import decode
from loops.llama import llama
from loops.loop import BFLOAT16, Loop, adamw

from phased.ways import Backup, Way


class Grpo(Loop):
    """Training loop with phases.

    Args:
        setting: size, and seed of the lengths.
        way: how phases are run.
        engine: whether an engine generates.
        session: pgmo's session; None without one.
    """

    def __init__(self, setting: Setting, way: Way, *, engine: bool, session: Any) -> None:
        super().__init__(setting)
        self.way, self.session = way, session
        self.policy = llama(setting, cache=True)
        self.optimizer = adamw([self.policy], fused=True)
        self.reference = llama(setting).to(BFLOAT16).requires_grad_(False)
        self.pool = torch.cuda.MemPool() if engine else None
        with self.of_engine():
            self.engine = llama(setting, cache=True).to(BFLOAT16) if engine else None
        self.answers = setting.choose(128, 8)
        self.part = setting.choose(8, 4)

    def of_engine(self) -> AbstractContextManager[Any]:
        """Return a context in which memory comes from the engine's pool."""
        if self.pool is None:
            return contextlib.nullcontext()
        return torch.cuda.use_mem_pool(self.pool)

    def step(self, iteration: int) -> None:
        engines = [self.engine] if self.engine is not None else []
        with self.way.phase("rollout", [self.optimizer, self.reference]):
            answers = self.rollout()
        with self.way.phase("scoring", [self.optimizer, *engines]), torch.no_grad():
            for part in answers.split(self.part):
                for model in (self.policy, self.reference):
                    self.likelihood(model, part)
        with self.way.phase("training", [self.reference, *engines]):
            for part in answers.split(self.part):
                self.likelihood(self.policy, part).backward()
                self.optimizer.step()
                self.optimizer.zero_grad()
                if self.session:
                    self.session.step()

    def rollout(self) -> torch.Tensor:
        """Generate answers; return tokens, shape (answers, length)."""
        longest, tokens = self.setting.choose((960, 24), (48, 4))
        prompt = self.chance.randint(longest // 2, longest)
        if self.engine is None:
            with torch.autocast("cuda", BFLOAT16):
                return decode(self.policy, self.answers, prompt, tokens)
        with torch.no_grad():
            pairs = zip(self.engine.parameters(), self.policy.parameters(), strict=True)
            for own, given in pairs:
                own.copy_(given)
        with self.of_engine():
            answers = decode(self.engine, self.answers, prompt, tokens)
        answers = answers.clone()
        if isinstance(self.way, Backup):  # torch_memory_saver frees the whole pool
            self.pool = torch.cuda.MemPool()
        return answers

    def likelihood(self, model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
        """Return the mean log-probability of tokens."""
        with torch.autocast("cuda", BFLOAT16):
            loss: torch.Tensor = model(input_ids=tokens, labels=tokens, use_cache=False).loss
        return loss
