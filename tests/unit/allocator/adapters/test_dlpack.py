"""Memory that PyTorch and NumPy share by DLPack: a block lives as long as either side holds it.

Tests with CuPy are in tests/fakecuda/sessions/test_cupy.py.
"""

import gc

import numpy as np
import pytest

import pgmo

torch = pytest.importorskip("torch")

SIZE = 40_000


def test_an_array_holds_the_block_of_a_tensor():

    def tensor():
        return torch.full((SIZE,), 7, dtype=torch.uint8)

    with pgmo.optimize(device="cpu") as session:
        for _ in range(6):
            with session.iteration():
                slot = tensor().data_ptr()
        assert session.history[-1].hit_rate == 1
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
    # Slots may also hold tensors of other threads, such as those of an earlier test.
    assert held >= SIZE
    assert (again == 7).all()
    assert session.statistics["live_slot_bytes"] == held
    del again
    assert session.statistics["live_slot_bytes"] == held - SIZE
