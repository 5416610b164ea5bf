"""Small versions of the demo networks, begun at a batch at which nothing was recorded."""

import importlib

import numpy as np
import pytest

import pgmo
from pgmo.allocator.statistics import Phase

torch = pytest.importorskip("torch")

from pgmo.demo.network import NAMES, create  # noqa: E402

LENGTHS = {"gpt": 32, "lstm": 12}


def shrink(network, name):
    """Replaces the model by one of the same kind that trains in milliseconds."""
    module = importlib.import_module(f"pgmo.demo.{name}")
    network.model = {
        "gpt": lambda: module.GPT(width=32, layers=2, heads=2, longest=160),
        "lstm": lambda: module.Seq2Seq(width=64, hidden=128, layers=1),
        "resnet": lambda: module.ResNet(width=8, blocks=1),
        "unet": lambda: module.UNet(width=4, depth=2),
    }[name]()
    kind = torch.optim.Adam if name in LENGTHS else torch.optim.SGD
    more = {} if name in LENGTHS else {"momentum": 0.9}
    network.optimizer = kind(network.model.parameters(), lr=1e-3, **more)


@pytest.fixture
def train(monkeypatch):
    """Trains a small network for some iterations in a session, which is returned."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)

    def run(name, batch, length=None, iterations=5, **options):
        module = importlib.import_module(f"pgmo.demo.{name}")
        monkeypatch.setattr(module, "_BATCH", batch)
        if name in ("resnet", "unet"):
            monkeypatch.setattr(module, "_IMAGE", 16)
        network = create(name, seed=0)
        shrink(network, name)
        with pgmo.optimize(device="cpu", **options) as session:
            for index in range(iterations):
                with session.iteration():
                    network.step(network.batch(index, length or LENGTHS.get(name)))
        return session

    yield run
    torch.set_num_threads(before)


def recorded(train, name, points):
    sessions = [train(name, *point, record_only=True) for point in points]
    return [one.profile for one in sessions], [one.opening for one in sessions]


def shares_of_slots(session, opening):
    """Of the bytes of each iteration; without state, which is born in the first one to stay."""
    state = [int(opening.size[opening.persistent].sum()), 0, 0]
    return [
        one.bytes_hit / (one.bytes_requested - born)
        for one, born in zip(session.history, state, strict=True)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_three_small_batches_serve_a_large_one_from_its_first_iteration(train, name):
    profiles, openings = recorded(train, name, [(2,), (4,), (8,)])
    steady = pgmo.extrapolate(profiles, batch=[2, 4, 8])
    large = steady.at(batch=64)
    opening = pgmo.extrapolate(openings, batch=[2, 4, 8]).at(batch=64)
    session = train(name, 64, iterations=3, profile=large, opening=opening)
    assert [one.phase for one in session.history] == [Phase.REPLAY] * 3
    assert min(shares_of_slots(session, opening)) >= 0.98
    assert session.summary().recorded == 0
    # What a tensor needs is foretold exactly. oneDNN's workspaces are what they are on this
    # processor: from above where they follow no law, or rarely another kernel is chosen.
    truth = train(name, 64, record_only=True).profile
    same = large.size == truth.size
    assert len(large) == len(truth)
    assert np.mean(same) >= 0.95
    assert np.mean((steady.kinds != "upper") & ~same) <= 0.01
    assert pgmo.plan(large).arena == pytest.approx(pgmo.plan(truth).arena, rel=0.03)


def test_batch_and_length_of_the_transformer_at_once(train):
    grid = [(2, 16), (4, 16), (2, 32), (4, 32), (2, 64), (8, 64)]
    values = {"batch": [batch for batch, _ in grid], "length": [length for _, length in grid]}
    profiles, openings = recorded(train, "gpt", grid)
    large = pgmo.extrapolate(profiles, **values).at(batch=16, length=96)
    opening = pgmo.extrapolate(openings, **values).at(batch=16, length=96)
    session = train("gpt", 16, 96, iterations=3, profile=large, opening=opening)
    assert [one.phase for one in session.history] == [Phase.REPLAY] * 3
    assert min(shares_of_slots(session, opening)) >= 0.98
    truth = train("gpt", 16, 96, record_only=True).profile
    assert np.array_equal(large.size, truth.size)
    assert pgmo.plan(large).arena == pgmo.plan(truth).arena


def test_another_network_is_refused_with_the_first_request_that_differs(train):
    wide = train("resnet", 2, record_only=True).profile
    other = train("unet", 4, record_only=True).profile
    with pytest.raises(pgmo.ProfileError, match=r"request 0: .*randint.* at batch=2, .*rand\)"):
        pgmo.extrapolate([wide, other], batch=[2, 4])
