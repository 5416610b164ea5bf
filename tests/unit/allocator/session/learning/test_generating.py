"""Prompts of any length, then one token at a time: the cache lives on, and grows."""

import pytest

from tests.unit.allocator.simulated import SimulatedAdapter, open_session

LAYERS, TOKENS = 6, 12


class Generating:
    """Forward passes of a model in miniature; each layer's cache is made anew, a token longer.

    Args:
        adapter: where it allocates.
    """

    def __init__(self, adapter: SimulatedAdapter) -> None:
        self._adapter = adapter
        self._cache: list[int] = []
        self._length = 0

    def prompt(self, length: int) -> None:
        self.finish()
        self._pass(length)

    def token(self) -> None:
        self._pass(1)

    def finish(self) -> None:
        for address in self._cache:
            self._adapter.free(address)
        self._cache, self._length = [], 0

    def _pass(self, tokens: int) -> None:
        request, free = self._adapter.request, self._adapter.free
        self._length += tokens
        hidden = request(512 * tokens)
        for layer in range(LAYERS):
            query = request(1024 * tokens)
            keys = request(256 * self._length)
            if len(self._cache) > layer:
                free(self._cache[layer])
                self._cache[layer] = keys
            else:
                self._cache.append(keys)
            wide = request(4096 * tokens)
            after = request(512 * tokens)
            for address in (query, wide, hidden):
                free(address)
            hidden = after
        logits = request(4000)
        free(hidden)
        free(logits)


@pytest.fixture
def lazy(adapter):
    adapter.lazy = True
    return adapter


def test_prompts_and_tokens_have_plans_of_their_own(lazy):
    model = Generating(lazy)
    with open_session(lazy) as session:
        for length in (60, 45, 80, 30):
            with session.iteration():
                model.prompt(length)
            for _ in range(TOKENS):
                with session.iteration():
                    model.token()
        rates = [one.hit_bytes_rate for one in session.history]
        prompts = rates[:: TOKENS + 1]
        assert min(prompts[1:]) > 0.9  # the first one's plan was kept for them
        assert sum(rates) - sum(prompts) > 0.9 * (len(rates) - len(prompts)) - 4
        model.finish()


def test_a_cache_that_grows_is_not_in_the_way_of_the_next_plan(lazy):
    model = Generating(lazy)
    with open_session(lazy) as session:
        with session.iteration():
            model.prompt(40)
        for _ in range(3 * TOKENS):
            with session.iteration():
                model.token()
        later = session.history[8:]
        assert not sum(one.misses["late"] for one in later)
        assert min(one.hit_bytes_rate for one in later) > 0.9
        model.finish()
