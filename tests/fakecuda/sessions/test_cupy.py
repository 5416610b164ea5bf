"""CuPy, replaced by a fake, with the CUDA build of PyTorch."""

from tests.fakecuda.programs import run_program

START = """
import json, sys
import pgmo, torch
from tests.unit import fake_cupy
from tests.unit.fake_cupy import alloc

cupy = sys.modules["cupy"] = fake_cupy.make()
cupy.cuda.set_allocator(pgmo.cupy_torch_allocator())
"""

TRAINED = """
from pgmo.allocator import heuristics
from workloads import Shape, create

# Else so small a program has no room beside its weights.
heuristics.use(heuristics.Heuristics(price=0))

workload = create("gpt", Shape(batch=4, small=True))
side = torch.cuda.Stream()
arrays = []
def iteration():
    arrays.clear()  # those of the iteration before
    workload.step(64)
    with cupy.cuda.Stream(side.cuda_stream):
        arrays.append(alloc(cupy, 3 << 20))
    arrays.extend(alloc(cupy, size) for size in (1 << 20, 5000, 1))
    alloc(cupy, 0)

before = torch.cuda.memory_allocated()
plain = [alloc(cupy, 1 << 20)]
counted = torch.cuda.memory_allocated() - before
plain.clear()
freed = torch.cuda.memory_allocated() == before
with pgmo.optimize(device="cuda") as session:
    for _ in range(12):
        iteration()
        session.step()
    last, sizes = session.history[-1], session.profile.size.tolist()
    streams = sorted(set(session.profile.stream.tolist()))
print(json.dumps({
    "counted": counted, "freed": freed, "phase": last.phase, "hits": last.planned_bytes_rate,
    "has": [size in sizes for size in (3 << 20, 1 << 20, 5000, 1)], "streams": len(streams),
}))
"""

SHARED = """
SIZE = 4 << 20
class Array:
    def __init__(self):
        self.memory = alloc(cupy, SIZE)
        self.__cuda_array_interface__ = {
            "data": (self.memory.ptr, False), "shape": (SIZE,), "typestr": "|u1", "version": 3,
        }

def tensor():
    return torch.empty(SIZE, dtype=torch.uint8, device="cuda")

with pgmo.optimize(device="cuda") as session:
    for _ in range(8):
        with session.iteration():
            first, second = Array(), tensor()
            del first, second
    with session.iteration():
        # Each side has what the other one made.
        held = [torch.as_tensor(Array(), device="cuda"), tensor().__dlpack__()]
        slots = [held[0].data_ptr()]
    live = session.statistics["live_slot_bytes"]
    with session.iteration():
        first, second = Array(), tensor()
        while_held = [first.memory.ptr, second.data_ptr()]
        del first, second
    held.clear()
    none = session.statistics["live_slot_bytes"]
    for _ in range(3):
        with session.iteration():
            first, second = Array(), tensor()
            del first, second
    hits = session.history[-1].hit_rate
print(json.dumps([live // SIZE, none, slots[0] in while_held, hits]))
"""


def run(code):
    return run_program(START + code, PGMO_CHECK="1")


def test_one_plan_serves_training_and_arrays():
    found = run(TRAINED)
    assert found["counted"] == 1 << 20
    assert found["freed"]
    assert found["phase"] == "replay"
    assert found["hits"] >= 0.999
    assert found["has"] == [True] * 4
    assert found["streams"] == 2


def test_slots_are_taken_as_long_as_either_side_holds_them():
    live, none, reused, hits = run(SHARED)
    assert (live, none, reused) == (2, 0, False)
    assert hits == 1
