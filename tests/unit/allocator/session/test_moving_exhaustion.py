"""Memory that runs out while blocks are moved: they stay or come back, and training goes on."""

import gc

import pytest

torch = pytest.importorskip("torch")

import pgmo  # noqa: E402
from pgmo.allocator.adapters.torch_cpu import TorchCpu, torch_cpu  # noqa: E402
from pgmo.allocator.session.statistics import Phase  # noqa: E402
from pgmo.errors import AdapterError  # noqa: E402
from tests.unit.allocator.training import Training, assert_same, run, trained  # noqa: E402


class Refusing:
    """In the place of a method that takes memory.

    Args:
        method: what takes it otherwise.
        after: how often it may.
        times: how often it is refused then.
    """

    def __init__(self, method, after=0, times=1 << 30):
        self.method, self.after, self.times, self.calls = method, after, times, 0

    def __call__(self, *args):
        self.calls += 1
        if self.after < self.calls <= self.after + self.times:
            raise AdapterError("no memory")
        return self.method(*args)


@pytest.fixture(autouse=True)
def collected():
    """Exceptions of an earlier test may keep its tensors, and these their arena."""
    gc.collect()


@pytest.fixture
def refuse(monkeypatch):
    def begin(name, **options):
        refusing = Refusing(getattr(TorchCpu, name), **options)
        monkeypatch.setattr(TorchCpu, name, lambda self, *args: refusing(self, *args))
        return refusing

    return begin


def test_no_memory_for_a_region(refuse):
    refuse("take_region")
    training = Training()
    with pgmo.optimize(device="cpu", compact=True) as session:
        run(training, session, 2)
        before = [one.data_ptr() for one in training.state()]
        run(training, session, 6)
        assert [one.data_ptr() for one in training.state()] == before
        assert session.history[-1].hit_rate == 1
        summary = str(session.summary())
        assert "3.05 MiB stayed where they were: there was no memory to move them (no" in summary
    assert_same(training, trained(8))


def test_no_memory_for_the_second_region(refuse, monkeypatch):
    monkeypatch.setattr("pgmo.allocator.adapters.relocation._PIECE", 1 << 20)
    refusing = refuse("take_region", after=1)
    training = Training()
    with pgmo.optimize(device="cpu", compact=True) as session:
        run(training, session, 8)
        assert refusing.calls == 2
        summary = str(session.summary())
        assert "of long-lived blocks were moved together" in summary
        assert "stayed where they were: there was no memory to move them" in summary
    assert_same(training, trained(8))


def test_pieces_are_moved_one_after_the_other(refuse, monkeypatch):
    """So that never more than one of them is there twice."""
    monkeypatch.setattr("pgmo.allocator.adapters.relocation._PIECE", 1 << 20)
    counting = refuse("take_region", after=1 << 30)
    training = Training()
    with pgmo.optimize(device="cpu", compact=True) as session:
        run(training, session, 8)
        assert counting.calls >= 3
        assert "3.05 MiB of long-lived blocks were moved together" in str(session.summary())
    assert_same(training, trained(8))


def test_no_memory_for_the_arena_brings_gradients_back(refuse):
    refuse("take_arena")
    training = Training()
    with pgmo.optimize(device="cpu", compact=True) as session:
        with pytest.warns(UserWarning, match="could not be had: no memory"):
            run(training, session, 8)
        assert session.phase is Phase.BYPASS
        assert all(one.data_ptr() for one in training.gradients())
    assert_same(training, trained(8))


def test_no_memory_for_a_larger_arena_brings_gradients_back_and_goes_on(refuse):
    training, plain = Training(), Training()
    with pgmo.optimize(device="cpu", compact=True) as session:
        run(training, session, 6)
        refuse("take_arena", times=1)
        with pytest.warns(UserWarning, match="the plans so far go on serving"):
            run(training, session, 2, batch=64)
        run(training, session, 3)
        assert session.phase is Phase.REPLAY
        assert session.history[-1].hit_rate == 1
    for batch in (16,) * 6 + (64,) * 2 + (16,) * 3:
        plain.step(batch=batch)
    assert_same(training, plain)


def fail_to_move(address):
    """As the adapter does, which has released the address when it says so."""
    if address is not None:
        torch_cpu().engine.release(address)
    raise AdapterError("no memory")


def test_what_finds_no_memory_at_all_comes_back_later(monkeypatch):
    from pgmo.allocator.adapters.storage import StorageMover

    put_back = StorageMover.unpark
    short = [True]

    def unpark(self, storage, host, address):
        if short:
            fail_to_move(address)
        put_back(self, storage, host, address)

    monkeypatch.setattr(StorageMover, "unpark", unpark)
    training, plain = Training(), Training()
    with pgmo.optimize(device="cpu", compact=True) as session:
        with (
            pytest.warns(UserWarning, match="moved aside found no memory"),
            pytest.raises(AdapterError, match="no memory"),
        ):
            run(training, session, 8)
        expected = trained(len(training.losses)).gradients()
        assert not all(one.data_ptr() for one in training.gradients())
        short.clear()
        session.step()
        pairs = zip(training.gradients(), expected, strict=True)
        assert all(torch.equal(one, other) for one, other in pairs)
        run(training, session, 3)
    for _ in training.losses:
        plain.step()
    assert_same(training, plain)


def test_no_memory_for_what_was_moved_aside_costs_the_arena(monkeypatch):
    """Gradients matter more: the arena is given back for them."""
    from pgmo.allocator.adapters.storage import StorageMover

    put_back = StorageMover.unpark
    refusals = []

    def unpark(self, storage, host, address):
        if len(refusals) < 2:
            refusals.append(storage)
            fail_to_move(address)
        put_back(self, storage, host, address)

    monkeypatch.setattr(StorageMover, "unpark", unpark)
    training = Training()
    with pgmo.optimize(device="cpu", compact=True) as session:
        with pytest.warns(UserWarning, match="moved aside found no memory beside the arena"):
            run(training, session, 8)
        assert session.phase is Phase.BYPASS
    assert len(refusals) == 2
    assert_same(training, trained(8))
    training.optimizer.zero_grad()
    assert session.statistics["arenas"] == 0
