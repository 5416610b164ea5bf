"""Operators take on a fake card what they took on the stub, where PyTorch's own code asks."""

import json
from itertools import accumulate
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from pgmo.cards import find  # noqa: E402
from pgmo.fit.estimate.kernels.reductions import shared_buffers  # noqa: E402
from pgmo.profiler.trace import Event  # noqa: E402
from tests.unit.fit.estimate.cases import CASES  # noqa: E402

RECORDED = json.loads(Path(__file__).with_name("recorded_blocks.json").read_text())

pytestmark = pytest.mark.skipif(torch.version.cuda is not None, reason="needs a CPU build of torch")


@pytest.fixture
def run(monkeypatch):
    from pgmo.fit.estimate.fake_run import FakeRun

    monkeypatch.setattr(torch.backends.cudnn, "enabled", False)
    with FakeRun(find("H100")) as found:
        yield found


def blocks_of(run, case):
    case()
    before = len(run.trace())
    case()
    trace = run.trace()
    kinds, sizes = trace.kind[before:].tolist(), trace.size[before:].tolist()
    return [size if kind == Event.ALLOC else -size for kind, size in zip(kinds, sizes, strict=True)]


def requests(blocks):
    return [size for size in blocks if size > 0]


def test_every_case_is_recorded():
    assert list(RECORDED["blocks"]) == list(CASES)
    card = find("H100")
    assert RECORDED["multiprocessors"] == card.multiprocessors
    assert tuple(RECORDED["capability"]) == card.capability


@pytest.mark.parametrize("name", CASES)
def test_blocks(run, name):
    recorded, found = RECORDED["blocks"][name], blocks_of(run, CASES[name])
    assert requests(found) == requests(recorded)
    # When the results themselves are let go of at the end depends on Python's order.
    assert max(accumulate(found)) == max(accumulate(recorded))


@pytest.mark.parametrize(
    ("shape", "dims", "partial"),
    [((4096, 64), (0,), 4), ((64, 4096), (1,), 4), ((3,), (0,), 4), ((10, 0), (0,), 4)],
)
def test_small_reductions_take_nothing(shape, dims, partial):
    strides = torch.empty(shape, device="meta").stride()
    found = shared_buffers(shape, strides, dims, partial=partial, card=find("T4"))
    assert found is None or found[0] > 0
    if 0 in shape or shape == (3,):
        assert found is None


def test_more_multiprocessors_share_more():
    few, many = (
        shared_buffers((1 << 22,), (1,), (0,), partial=4, card=find(name))
        for name in ("T4", "H100")
    )
    assert few is not None
    assert many is not None
    assert few[0] < many[0]
