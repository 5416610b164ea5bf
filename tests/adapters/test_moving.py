"""Moving the memory under tensors."""

import ctypes

import numpy as np
import pytest

from pgmo.allocator.adapters.relocation import Parked, Relocation
from pgmo.allocator.adapters.storage import StorageMover
from pgmo.allocator.adapters.torch_tensors import Owned, Role
from pgmo.errors import AdapterError
from tests.adapters.world import Slot, serve

SIZE = 3000
BYTES = bytes(at % 251 for at in range(SIZE))


@pytest.fixture
def mover(world, adapter):
    return StorageMover(world.adapter, 0)


@pytest.fixture
def tensor(world, adapter):
    """Over a block from beneath, as optimizer state that was born while recording."""
    adapter.engine.start_recording()
    made = world.tensor(SIZE)
    ctypes.memmove(made.address, BYTES, SIZE)
    return made


def contents(tensor):
    return ctypes.string_at(tensor.address, SIZE)


def test_what_there_is_to_know(world, adapter, mover, tensor):
    view = mover.view(tensor.impl)
    assert (view.data, view.bytes, view.familiar) == (tensor.address, SIZE, True)
    assert (view.storage_uses, view.tensor_uses) == (1, 1)
    second = tensor.view()
    assert mover.view(tensor.impl).storage_uses == 2
    assert mover.view(second.impl).storage == view.storage
    second.free()
    assert mover.view(tensor.impl).storage_uses == 1


def test_familiar_are_blocks_of_ours_and_of_the_allocator_beneath(world, adapter, mover):
    unseen = world.tensor(SIZE)
    serve(adapter, [Slot(SIZE, 0, end=1)])
    slot = world.tensor(SIZE)
    adapter.engine.detach_arena()
    assert mover.view(unseen.impl).familiar
    assert mover.view(slot.impl).familiar
    ours = world.current
    world.store(world.upstream(1))
    strange = world.tensor(SIZE)
    world.store(ours)
    assert not mover.view(strange.impl).familiar


def test_to_a_region_with_all_views_and_bytes(world, adapter, mover, tensor):
    second = tensor.view()
    memory = adapter.take_region(8192)
    region = adapter.engine.add_region(memory.base, memory.bytes, *memory.owner)
    address = adapter.engine.place_in_region(region, 1024, SIZE)
    world.log()
    mover.move(mover.view(tensor.impl).storage, address)
    assert world.log() == ["beneath: free(3072)"]
    assert tensor.address == second.address == address == memory.base + 1024
    assert contents(tensor) == BYTES
    adapter.engine.close_region(region)
    tensor.free()
    assert contents(second) == BYTES
    second.free()
    assert world.living() == 0


def test_by_way_of_the_host_into_a_slot(world, adapter, mover, tensor):
    second = tensor.view()
    storage = mover.view(tensor.impl).storage
    host = np.empty(SIZE, np.uint8)
    mover.park(storage, host.ctypes.data)
    assert bytes(host) == BYTES
    assert world.living() == 0  # nothing is held twice
    assert mover.view(tensor.impl) is None
    bases = serve(adapter, [Slot(500, 0, end=1), Slot(SIZE, 512, end=3)])
    address = adapter.engine.resettle(1, SIZE)
    assert address == bases[0] + 512
    mover.unpark(storage, host.ctypes.data, address)
    assert tensor.address == second.address == address
    assert contents(second) == BYTES
    assert adapter.engine.statistics()["live_slot_bytes"] == SIZE
    tensor.free()
    second.free()
    assert adapter.engine.statistics()["live_slot_bytes"] == 0


def test_back_to_the_framework_where_no_slot_is_free(world, adapter, mover, tensor):
    storage = mover.view(tensor.impl).storage
    host = np.empty(SIZE, np.uint8)
    mover.park(storage, host.ctypes.data)
    world.log()
    with world.on(device=1):
        mover.unpark(storage, host.ctypes.data, None)
    assert world.log() == [f"beneath: allocate({SIZE})"]
    assert contents(tensor) == BYTES
    assert world.used(0) == 3072
    tensor.free()
    assert world.living() == 0


def test_a_block_that_another_stream_reads_is_not_overwritten_early(world, adapter, mover):
    """A slot that is parked waits for that stream as if it were freed."""
    bases = serve(adapter, [Slot(SIZE, 0, end=1), Slot(SIZE, 0, end=2)])
    block = world.allocate(SIZE)
    block.record_stream(3)
    moved = world.tensor_over(block)
    host = np.empty(SIZE, np.uint8)
    with world.held(stream=3):
        mover.park(mover.view(moved.impl).storage, host.ctypes.data)
        assert world.allocate(SIZE).address != bases[0]


def test_synchronizing_is_of_the_device_asked_for(world, adapter):
    mover = StorageMover(world.adapter, 2)
    world.log()
    mover.synchronize()
    assert world.log() == ["cudaDeviceSynchronize(2)"]
    assert world.ask("device") == 0


def test_the_old_block_is_freed_when_the_bytes_have_arrived(world, adapter, mover, tensor):
    """Copies inside of a device are only submitted when cudaMemcpy returns."""
    memory = adapter.take_region(8192)
    region = adapter.engine.add_region(memory.base, memory.bytes, *memory.owner)
    address = adapter.engine.place_in_region(region, 0, SIZE)
    with world.held(stream=0):
        mover.move(mover.view(tensor.impl).storage, address)
        assert contents(tensor) == BYTES


@pytest.mark.parametrize("step", ["move", "unpark"])
def test_an_address_is_released_when_the_move_fails(world, adapter, mover, tensor, step):
    """By the one that it was given to, and by nobody else."""
    memory = adapter.take_region(8192)
    region = adapter.engine.add_region(memory.base, memory.bytes, *memory.owner)
    address = adapter.engine.place_in_region(region, 0, SIZE)
    storage = mover.view(tensor.impl).storage
    host = np.frombuffer(BYTES, np.uint8).copy()
    with world.failing(3), pytest.raises(AdapterError, match="CUDA error"):
        if step == "move":
            mover.move(storage, address)
        else:
            mover.unpark(storage, host.ctypes.data, address)
    assert adapter.engine.statistics()["live_region_bytes"] == 0
    assert contents(tensor) == BYTES  # it is where it was
    adapter.engine.close_region(region)
    assert world.living() == 1  # the tensor's own block


def test_parked_bytes_outlast_a_failure(world, adapter, mover, tensor):
    """The slot that they did not get is somebody else's at once, and stays that one's."""

    class Meanwhile(StorageMover):
        def unpark(self, *arguments):
            try:
                super().unpark(*arguments)
            except AdapterError:
                others.append(world.allocate(SIZE))
                raise

    others = []
    bases = serve(adapter, [Slot(SIZE, 0, end=1)])
    relocation = Relocation(adapter, Meanwhile(world.adapter, 0), lambda: False)
    owned = Owned(mover.view(tensor.impl), Role.GRADIENT, "")
    host = np.empty(SIZE, np.uint8)
    mover.park(owned.view.storage, host.ctypes.data)
    parked = Parked([(owned, host, 0)])
    with world.failing(3), pytest.raises(AdapterError):
        relocation.settle(parked)
    (other,) = others
    assert other.address == bases[0]
    assert adapter.engine.statistics()["live_slot_bytes"] == SIZE
    relocation.settle(parked)
    assert contents(tensor) == BYTES
    assert tensor.address != other.address
