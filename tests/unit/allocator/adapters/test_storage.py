"""Looking at the memory under tensors, and moving it from under them."""

import copy
import gc
import io

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pgmo.allocator.adapters.storage import StorageMover  # noqa: E402
from pgmo.allocator.adapters.torch_cpu import torch_cpu  # noqa: E402
from pgmo.allocator.adapters.torch_tensors import Role, find_storages, state_exists  # noqa: E402
from pgmo.errors import AdapterError  # noqa: E402


@pytest.fixture
def adapter():
    gc.collect()
    adapter = torch_cpu()
    adapter.install()
    yield adapter
    adapter.uninstall()


@pytest.fixture
def mover(adapter):
    return StorageMover(adapter._library, 0)


@pytest.fixture
def place(adapter):
    """Makes a region of so many bytes, and gives addresses in it."""
    memory = adapter.take_region(1 << 20)
    region = adapter.engine.add_region(memory.base, memory.bytes, *memory.owner)
    end = 0

    def next_place(size):
        nonlocal end
        address = adapter.engine.place_in_region(region, end, size)
        end += -(-size // 64) * 64
        return address

    yield next_place
    adapter.engine.close_region(region)


def storage_of(mover, tensor):
    return mover.view(tensor._cdata).storage


def test_a_view_counts_who_holds_the_storage(mover):
    tensor = torch.arange(100.0)
    view = mover.view(tensor._cdata)
    assert (view.data, view.bytes) == (tensor.data_ptr(), 400)
    assert (view.storage_uses, view.familiar) == (1, True)
    other = tensor[3:]
    assert mover.view(other._cdata).storage == view.storage
    assert mover.view(tensor._cdata).storage_uses >= 2
    assert mover.view(other._cdata).data == tensor.data_ptr()  # of the storage, not of the view


def test_tensors_without_memory(mover):
    assert mover.view(torch.empty(0)._cdata) is None
    assert mover.view(torch.empty(7, device="meta")._cdata) is None
    sparse = torch.eye(3).to_sparse()
    assert mover.view(sparse._cdata) is None


def test_memory_of_others_is_not_familiar(mover):
    array = np.arange(100.0)
    assert not mover.view(torch.from_numpy(array)._cdata).familiar
    shared = torch.zeros(100).share_memory_()
    assert not mover.view(shared._cdata).familiar


def test_moving_takes_all_tensors_of_a_storage_along(mover, place):
    tensor = torch.arange(100.0)
    view, alias = tensor[10:20], tensor.detach()
    address = place(400)
    mover.move(storage_of(mover, tensor), address)
    assert tensor.data_ptr() == alias.data_ptr() == address
    assert view.data_ptr() == address + 40
    assert torch.equal(view, torch.arange(10.0, 20.0))
    view += 1
    assert tensor[15] == 16


def test_a_moved_block_belongs_to_the_engine(adapter, mover, place):
    before = adapter.engine.statistics()["live_region_bytes"]
    tensor = torch.arange(100.0)
    mover.move(storage_of(mover, tensor), place(400))
    assert adapter.engine.statistics()["live_region_bytes"] == before + 400
    assert mover.view(tensor._cdata).familiar
    mover.move(storage_of(mover, tensor), place(400))  # again: the first place becomes free
    assert adapter.engine.statistics()["live_region_bytes"] == before + 400
    del tensor
    assert adapter.engine.statistics()["live_region_bytes"] == before


@pytest.mark.parametrize("where", ["region", "framework"])
def test_parking_frees_the_block_and_unparking_brings_the_bytes_back(mover, place, where):
    tensor = torch.arange(100.0)
    view = tensor.view(10, 10)
    storage = storage_of(mover, tensor)
    host = np.empty(400, np.uint8)
    mover.park(storage, host.ctypes.data)
    assert mover.view(tensor._cdata) is None  # nothing is left there
    assert np.array_equal(host.view(np.float32), np.arange(100, dtype=np.float32))
    address = place(400) if where == "region" else None
    mover.unpark(storage, host.ctypes.data, address)
    assert tensor.data_ptr() == (address or tensor.data_ptr()) != 0
    assert torch.equal(view, torch.arange(100.0).view(10, 10))
    tensor.resize_(10_000)  # the storage knows its allocator still
    assert torch.equal(tensor[:100], torch.arange(100.0))


def test_nothing_moves_when_the_adapter_is_not_installed(adapter, mover, place):
    tensor = torch.arange(100.0)
    address, before = place(400), tensor.data_ptr()
    adapter.uninstall()
    try:
        with pytest.raises(AdapterError, match="not installed"):
            mover.move(storage_of(mover, tensor), address)
    finally:
        adapter.install()
    assert tensor.data_ptr() == before
    adapter.engine.release(address)


@pytest.fixture
def parameter():
    """A parameter with a gradient and an optimizer's state; both from the framework."""
    parameter = torch.nn.Parameter(torch.zeros(1000))
    optimizer = torch.optim.Adam([parameter])
    parameter.sum().backward()
    optimizer.step()
    return parameter, optimizer


def test_roles(mover, parameter):
    owner, optimizer = parameter
    found = find_storages(mover, "cpu")
    state = optimizer.state[owner]
    role = {name: found[one.data_ptr()].role for name, one in state.items()}
    assert role == {"step": Role.STATE, "exp_avg": Role.STATE, "exp_avg_sq": Role.STATE}
    assert found[owner.grad.data_ptr()].role is Role.GRADIENT
    assert found[owner.data_ptr()].role is Role.OTHER


def test_what_nobody_else_holds_has_no_obstacle(mover, parameter):
    owner, optimizer = parameter
    found = find_storages(mover, "cpu")
    addresses = [one.data_ptr() for one in optimizer.state[owner].values()]
    assert [found[one].obstacle for one in (*addresses, owner.grad.data_ptr())] == [""] * 4


@pytest.mark.parametrize(
    "touch",
    [copy.deepcopy, lambda one: torch.save(one, io.BytesIO()), torch.Tensor.untyped_storage],
    ids=["deepcopy", "save", "storage"],
)
def test_a_storage_that_python_has_looked_at_once_may_be_moved(mover, parameter, touch):
    owner, optimizer = parameter
    state = optimizer.state[owner]["exp_avg"]
    touch(state)
    gc.collect()  # older versions save with cycles of objects, which hold it
    address = state.data_ptr()
    del state
    assert find_storages(mover, "cpu")[address].obstacle == ""


@pytest.mark.parametrize("before", [0, 1])
def test_a_storage_that_python_holds_may_not_be_moved(mover, parameter, before):
    owner, optimizer = parameter
    state = optimizer.state[owner]["exp_avg"]
    for _ in range(before):
        state.untyped_storage()
    address, held = state.data_ptr(), state.untyped_storage()
    del state
    assert "held by something" in find_storages(mover, "cpu")[address].obstacle
    del held
    assert find_storages(mover, "cpu")[address].obstacle == ""


def test_whether_there_is_state(parameter):
    gc.collect()
    assert state_exists("cpu")
    assert not state_exists("meta")
    parameter[1].state.clear()
    assert not state_exists("cpu")


def test_no_reference_is_left_behind(mover, parameter):
    owner, optimizer = parameter
    state = [mover.view(one._cdata) for one in optimizer.state[owner].values()]
    find_storages(mover, "cpu")
    assert state == [mover.view(one._cdata) for one in optimizer.state[owner].values()]


def test_tensors_of_other_devices_are_not_looked_at(mover, parameter):
    assert find_storages(mover, "meta") == {}
