"""The package CuPy on the stub: its arrays, pools, streams, devices and errors."""

import pytest

from tests.fakecuda.programs import run_program

pytest.importorskip("cupy")

START = """
import json, sys
from tests.fakecuda.cupy_on_stub import redirect_runtime
redirect_runtime()
import cupy, pgmo

SIZES = (1000, 300_000, 5 << 20)
def iterate(session, times, stream=cupy.cuda.Stream.null):
    for _ in range(times):
        with session.iteration(), stream:
            for size in SIZES:
                cupy.empty(size, cupy.uint8)

def kind(array):
    return type(array.data.mem).__name__
"""

SERVED = """
other = cupy.cuda.Stream(non_blocking=True)
rates, entered = [], []
def note(frame, event, _):
    if event == "call" and "/pgmo/" in frame.f_code.co_filename:
        entered.append(frame.f_code.co_qualname)

for stream in (cupy.cuda.Stream.null, other):
    with pgmo.optimize(framework="cupy") as session:
        iterate(session, 7, stream)
        rates.append(session.history[-1].hit_rate)
        with session.iteration(), stream:
            sys.setprofile(note)
            arrays = [cupy.empty(size, cupy.uint8) for size in (*SIZES, 7 << 20)]
            arrays.clear()
            sys.setprofile(None)
print(json.dumps([rates, entered]))
"""

CAPTURED = """
stream = cupy.cuda.Stream(non_blocking=True)
kinds = []
with pgmo.optimize(framework="cupy") as session:
    iterate(session, 7, stream)
    with session.iteration(), stream:
        stream.begin_capture()
        kinds.append(kind(cupy.empty(SIZES[0], cupy.uint8)))
        stream.end_capture()
        kinds.append(kind(cupy.empty(SIZES[0], cupy.uint8)))
print(json.dumps(kinds))
"""

DEVICES = """
kinds = []
with pgmo.optimize(framework="cupy", device="cuda:1") as session:
    for device in (0, 1):
        with cupy.cuda.Device(device):
            array = cupy.empty(1000, cupy.uint8)
            kinds.append([kind(array), array.device.id])
    session.step()
print(json.dumps(kinds))
"""

OUT_OF_MEMORY = """
with pgmo.optimize(framework="cupy") as session:
    iterate(session, 7)
    try:
        cupy.empty(1 << 40, cupy.uint8)
    except cupy.cuda.memory.OutOfMemoryError as error:
        note = error.__notes__[0]
print(json.dumps(note))
"""

ENDING = """
session = pgmo.optimize(framework="cupy").__enter__()
iterate(session, 7)
arrays = [cupy.empty(size, cupy.uint8) for size in SIZES]
print(json.dumps([kind(array) for array in arrays]))
"""


def run(code, **environment):
    return run_program(START + code, PGMO_CHECK="1", **environment)


def test_arrays_are_served_and_no_python_function_of_ours_is_entered():
    assert run(SERVED) == [[1, 1], []]


def test_a_captured_stream_is_not_served():
    assert run(CAPTURED) == ["PooledMemory", "UnownedMemory"]


def test_another_device_is_passed_on():
    assert run(DEVICES, FAKECUDA_DEVICES="2") == [["PooledMemory", 0], ["UnownedMemory", 1]]


def test_its_out_of_memory_error_has_a_note():
    assert run(OUT_OF_MEMORY).startswith("pgmo: arenas hold ")


def test_a_process_may_end_with_slots_alive():
    assert run(ENDING) == ["UnownedMemory"] * 3
