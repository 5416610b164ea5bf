"""Inference behind a server with threads: embeddings of texts, and answers of a language model.

An iteration is what comes in at one time: mostly one request, sometimes several at once, each on a
thread of its own. So that a run can be repeated, threads take turns, after each layer.
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
"""Requests that come at the same time: drawn from these."""


@contextmanager
def in_bfloat16() -> Iterator[None]:
    """Models are made in it from the start: converted ones need more than they ever do later."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class Baton:
    """Lets one thread run at a time; whoever passes it on is next after all the others."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.waiting: list[int] = []  # the first one has it

    def run(self, works: list[Callable[[], object]]) -> None:
        """Does these at the same time, each on a thread of its own; the first error is raised."""
        errors: list[Exception] = []

        def follow(number: int) -> None:
            self.number.value = number
            try:
                self.take(number)
                works[number]()
            except Exception as error:  # raised below, on the thread that the job runs on
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
        """Waits until it is this one's turn."""
        with self.changed:
            self.changed.wait_for(lambda: self.waiting[0] == number)

    def pass_on(self, *_: object) -> None:
        """The others come first; a hook of layers."""
        with self.changed:
            number = self.number.value
            self.waiting.remove(number)
            self.waiting.append(number)
            self.changed.notify_all()
        self.take(number)


class Served(Loop, ABC):
    """A model in bfloat16, whose calls pgmo wraps."""

    opens_session = True
    model: nn.Module
    layers: nn.ModuleList

    def run(self, iterations: int, ended: Callable[[], None], *, session: bool = False) -> None:
        """Serves what comes in; see `Loop.run`."""
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
        """Draws a request; gives what serves it."""


class Embedding(Served):
    """BERT base, up to 32 texts of up to 512 tokens to a request."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        with in_bfloat16(), torch.device("cuda"):
            self.model = bert(setting).bert.eval()
        assert isinstance(self.model, BertModel)
        self.layers = self.model.encoder.layer

    def work(self) -> Callable[[], object]:
        """The mean of each text's states."""
        texts = self.chance.randint(1, 32)
        longest = self.setting.choose(512, 48)
        length = longest_of_batch(self.chance, texts, longest, median=longest / 4)

        @torch.inference_mode()
        def embed() -> object:
            tokens, mask = zeros(texts, length), zeros(texts, length)
            return self.model(tokens, mask).last_hidden_state.mean(1).cpu()

        return embed


class Generating(Served):
    """A Llama that gives sixteen answers to a request, with a growing cache: each token is a call.

    Not by `generate()` of transformers, which asks the device when to stop: the stub never says so.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        with in_bfloat16():
            self.model = llama(setting, cache=True).eval()
        self.layers = self.model.model.layers

    def work(self) -> Callable[[], object]:
        """Sixteen answers of any length."""
        prompt, answer = request(self.chance, self.setting)
        return lambda: decode(self.model, 16, prompt, answer).cpu()


LOOPS = {"serving": Embedding, "generating": Generating}
