"""Memory that two frameworks share by DLPack: a block lives as long as either side holds it.

NumPy is the other side: its arrays keep the producer's capsule, as CuPy's do. The memory of CuPy's
fake is not there, and nobody looks at it.
"""

import gc
import threading

import numpy as np
import pytest

import pgmo
from tests.unit.fake_cupy import alloc

torch = pytest.importorskip("torch")

SIZE = 40_000


class Array:
    """What a `cupy.ndarray` is for DLPack: bytes that hold on to their memory."""

    def __init__(self, cupy):
        self.memory = alloc(cupy, SIZE)
        self.__array_interface__ = {
            "data": (self.memory.ptr, False),
            "shape": (SIZE,),
            "typestr": "|u1",
            "version": 3,
        }

    @property
    def address(self):
        return self.memory.ptr

    def export(self):
        """The tensor that PyTorch makes of it."""
        return torch.from_dlpack(np.asarray(self))


def replayed(session, request):
    """Iterations until a request gets its slot; returns the address."""
    for _ in range(6):
        with session.iteration():
            address = request()
    assert session.history[-1].hit_rate == 1
    return address


def test_a_tensor_holds_the_block_of_a_cupy_array(cupy):
    with pgmo.optimize(framework="cupy") as session:
        slot = replayed(session, lambda: Array(cupy).address)
        with session.iteration():
            tensor = Array(cupy).export()
            assert tensor.data_ptr() == slot
        for _ in range(2):
            with session.iteration():
                assert not slot - SIZE < Array(cupy).address < slot + SIZE
            assert session.statistics["live_slot_bytes"] == SIZE
        holder = [tensor.view(2, -1)[1]]
        del tensor
        assert session.statistics["live_slot_bytes"] == SIZE
        thread = threading.Thread(target=holder.clear)
        thread.start()
        thread.join()
        assert session.statistics["live_slot_bytes"] == 0
        assert replayed(session, lambda: Array(cupy).address) > 0


def test_a_tensor_holds_the_arena_after_the_session(cupy):
    with pgmo.optimize(framework="cupy") as session:
        replayed(session, lambda: Array(cupy).address)
        with session.iteration():
            tensor = Array(cupy).export()
        arena = session.plan.arena
    cupy.pool.free_all_blocks()
    held = cupy.runtime.used()
    del tensor
    cupy.pool.free_all_blocks()
    assert held - cupy.runtime.used() == arena


def test_an_array_holds_the_block_of_a_tensor():

    def tensor():
        return torch.full((SIZE,), 7, dtype=torch.uint8)

    with pgmo.optimize(device="cpu") as session:
        slot = replayed(session, lambda: tensor().data_ptr())
        with session.iteration():
            array = np.from_dlpack(tensor())
            assert array.ctypes.data == slot
        for _ in range(8):
            with session.iteration():
                other = tensor()
                other.fill_(1)
                assert not slot - SIZE < other.data_ptr() < slot + SIZE
        assert (array == 7).all()
    held = session.statistics["live_slot_bytes"]
    try:
        again = torch.from_dlpack(array)  # and back
    except BufferError:
        pytest.skip("this torch takes no arrays that cannot be written")
    del array
    gc.collect()
    # Slots may hold tensors of other threads of this process, too, such as an earlier test's.
    assert held >= SIZE
    assert (again == 7).all()
    assert session.statistics["live_slot_bytes"] == held
    del again
    assert session.statistics["live_slot_bytes"] == held - SIZE
