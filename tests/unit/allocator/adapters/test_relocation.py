"""What a relocation looks at, and what it says; moving itself is in test_moving.py."""

import pytest

from pgmo.allocator.adapters import relocation as module
from pgmo.allocator.adapters.relocation import LATE, SLOT, Relocation
from pgmo.allocator.adapters.storage import StorageView
from pgmo.allocator.adapters.torch_tensors import Owned, Role
from tests.unit.allocator.simulated import SimulatedAdapter


class StillMover:
    def synchronize(self):
        pass


@pytest.mark.parametrize(("size", "times"), [(module._WORTH_IT - 1, 0), (module._WORTH_IT, 1)])
def test_objects_are_looked_through_only_where_that_can_pay(monkeypatch, size, times):
    scans = []
    monkeypatch.setattr(module, "find_storages", lambda *of: scans.append(of) or {})
    adapter = SimulatedAdapter(fragments=True)
    adapter.install()
    adapter.engine.start_recording()  # from now on the engine notes the blocks of others
    adapter.request(size)
    relocation = Relocation(adapter, StillMover(), lambda: False)
    assert relocation.clear_the_way({}).items == []
    assert len(scans) == times
    assert ("stayed where they were" in relocation.note) is bool(times)


def test_what_is_small_is_not_mentioned():
    relocation = Relocation(SimulatedAdapter(), StillMover(), lambda: False)
    relocation.stayed.update({"little": 1000, "much": 1 << 20, module._NOT_MOVED: 1 << 25})
    assert relocation.note == "1.00 MiB stayed where they were: much"


# --- blocks in an arena that goes ---------------------------------------------------------------

SIZE = 2 * module._WORTH_IT


class NotingMover(StillMover):
    """Does to the framework's blocks what the adapter does, and notes it."""

    def __init__(self, adapter, storages):
        self._adapter = adapter
        self._storages = storages
        self.calls = []

    def park(self, storage, host):
        self._adapter.free(self._storages[storage])
        self.calls.append(("park", storage))

    def unpark(self, storage, host, address):
        self.calls.append(("unpark", storage, address))

    def move(self, storage, address):
        self.calls.append(("move", storage))


@pytest.fixture
def late(monkeypatch):
    """Makes a framework with one block in its arena, past its planned end or not, and a mover."""

    def make(role=Role.GRADIENT, obstacle="", kind=LATE):
        adapter = SimulatedAdapter(fragments=True)
        adapter.install()
        engine = adapter.engine
        adapter.request(8)
        memory = adapter.take_arena(SIZE, 0)
        engine.add_arena(0, 0, memory.base, memory.bytes, *memory.owner)
        engine.add_plan(
            size=[SIZE], stream_index=[0], varying=[False], end=[1], offset=[0], alternate=[-1],
            streams=[0], arena_bytes=SIZE, alignment=64,
        )  # fmt: skip
        engine.start_serving()
        address = adapter.request(SIZE)
        assert address == memory.base
        for _ in range(2 if kind == LATE else 0):
            engine.end_iteration()
        assert engine.living()["kind"].tolist() == [kind]
        owned = Owned(StorageView(7, address, SIZE, 1, 1, True), role, obstacle)
        monkeypatch.setattr(module, "find_storages", lambda *_: {address: owned})
        mover = NotingMover(adapter, {7: address})
        return adapter, Relocation(adapter, mover, lambda: False), mover

    return make


@pytest.mark.parametrize("kind", [SLOT, LATE])
def test_a_gradient_that_no_plan_has_leaves_the_arena(late, kind):
    """Also at the first time, at which what lives long is gathered: it is in the host's memory."""
    adapter, relocation, mover = late(kind=kind)
    parked = relocation.clear_the_way({})
    assert mover.calls == [("park", 7)]
    adapter.engine.remove_plans()
    adapter.engine.detach_arena()
    assert adapter.returned == [adapter.arenas[0][0][0]]  # at once
    relocation.settle(parked)
    assert mover.calls == [("park", 7), ("unpark", 7, None)]  # to the framework
    assert parked.items == []


def test_one_that_the_plan_has_goes_to_its_slot(late):
    adapter, relocation, mover = late(kind=SLOT)
    adapter.engine.end_iteration()
    address = adapter.arenas[0][0][0]
    parked = relocation.clear_the_way({address: 0})
    relocation.settle(parked)
    assert mover.calls == [("park", 7), ("unpark", 7, address)]


@pytest.mark.parametrize(
    ("role", "obstacle"), [(Role.GRADIENT, "somebody else holds it"), (Role.OTHER, "")]
)
def test_what_may_not_move_keeps_the_arena(late, role, obstacle):
    adapter, relocation, mover = late(role, obstacle)
    assert relocation.clear_the_way({}).items == []
    assert mover.calls == []
    adapter.engine.remove_plans()
    adapter.engine.detach_arena()
    assert adapter.returned == []


def test_gradients_beside_the_arena_stay(late):
    """Only an arena that goes needs them out of its way."""
    adapter, relocation, mover = late()
    parked = relocation.clear_the_way({})
    relocation.settle(parked)
    adapter.engine.start_recording()
    beside = adapter.request(SIZE + 64)
    assert not adapter.served(beside)
    mover.calls.clear()
    assert relocation.clear_the_way({}).items == []
    assert mover.calls == []
