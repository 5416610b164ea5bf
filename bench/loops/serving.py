"""Inference behind a server with threads: embeddings of texts, and answers of a language model.

An iteration serves one to three requests at a time, each on a thread of its own. The threads take
turns after each layer, so that a run can be repeated.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn
from transformers import BertModel

from loops import Setting
from loops.bert import bert
from loops.decoding import decode, request
from loops.llama import llama
from loops.loop import Loop, longest_of_batch, zeros

AT_ONCE = (1, 1, 1, 1, 2, 3)
"""Numbers of requests at a time, from which one is drawn for each iteration."""


@contextmanager
def in_bfloat16() -> Iterator[None]:
    """Make bfloat16 the default type: converting a float32 model needs more memory than serving."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class Baton:
    """Permission to run, which one thread has at a time, in a fixed order."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.waiting: list[int] = []  # threads in their order; the first one may run

    def run(self, works: list[Callable[[], object]]) -> None:
        """Run functions, each on a thread of its own, and raise the first error."""
        errors: list[Exception] = []

        def follow(number: int) -> None:
            self.number.value = number
            try:
                self.take(number)
                works[number]()
            except Exception as error:  # raised below, on the calling thread
                errors.append(error)
            finally:
                with self.changed:
                    self.waiting.remove(number)
                    self.changed.notify_all()

        self.number = threading.local()
        self.waiting = list(range(len(works)))
        threads = [threading.Thread(target=follow, args=(one,)) for one in self.waiting]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    def take(self, number: int) -> None:
        """Wait until it is the turn of a thread."""
        with self.changed:
            self.changed.wait_for(lambda: self.waiting[0] == number)

    def pass_on(self, *_: object) -> None:
        """Let all other threads run first. This is the forward pre-hook of each layer."""
        with self.changed:
            number = self.number.value
            self.waiting.remove(number)
            self.waiting.append(number)
            self.changed.notify_all()
        self.take(number)


class Served(Loop, ABC):
    """Inference of a model in bfloat16. If pgmo serves the loop, `pgmo.wrap` wraps the model."""

    opens_session = True
    model: nn.Module
    layers: nn.ModuleList

    def run(self, iterations: int, ended: Callable[[], None], *, session: bool = False) -> None:
        baton = Baton()
        for layer in self.layers:
            layer.register_forward_pre_hook(baton.pass_on)
        if session:
            import pgmo

            pgmo.wrap(self.model, device="cuda")
        for _ in range(iterations):
            works = [self.work() for _ in range(self.chance.choice(AT_ONCE))]
            baton.run(works)
            if session:
                self.session = pgmo.session_of(self.model)
            ended()

    @abstractmethod
    def work(self) -> Callable[[], object]:
        """Draw a request, and return a function that serves it."""


class Embedding(Served):
    """Server of embeddings: BERT base, with up to 32 texts of up to 512 tokens per request."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        with in_bfloat16(), torch.device("cuda"):
            self.model = bert(setting).bert.eval()
        assert isinstance(self.model, BertModel)
        self.layers = self.model.encoder.layer

    def work(self) -> Callable[[], object]:
        """Draw texts, and return a function that computes the mean state of each."""
        texts = self.chance.randint(1, 32)
        longest = self.setting.choose(512, 48)
        length = longest_of_batch(self.chance, texts, longest, median=longest / 4)

        @torch.inference_mode()
        def embed() -> object:
            tokens, mask = zeros(texts, length), zeros(texts, length)
            return self.model(tokens, mask).last_hidden_state.mean(1).cpu()

        return embed


class Generating(Served):
    """Server of a Llama that generates sixteen answers per request, with one call per token.

    The server does not use `generate()` of transformers, which reads from the device when to stop,
    because the stub computes no tokens.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        with in_bfloat16():
            self.model = llama(setting, cache=True).eval()
        self.layers = self.model.model.layers

    def work(self) -> Callable[[], object]:
        """Draw lengths, and return a function that generates sixteen answers."""
        prompt, answer = request(self.chance, self.setting)
        return lambda: decode(self.model, 16, prompt, answer).cpu()
