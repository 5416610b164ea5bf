"""Tests of sessions for CuPy on a device, with the same bits."""

import importlib.util
from pathlib import Path

import pytest

import pgmo
from tests.gpu.device import why_not_cupy

REASON = why_not_cupy()
if not REASON:
    import cupy

pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)


def load(name):
    """Return the module of an example, which imports CuPy."""
    path = Path(__file__).parents[2] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def network():
    return load("cupy_mlp").Network()


def solver():
    return load("cupy_conjugate_gradient").Solver(2000)


ALLOCATORS = {
    "pool": lambda: cupy.cuda.MemoryPool().malloc,
    "managed": lambda: cupy.cuda.MemoryPool(cupy.cuda.malloc_managed).malloc,
    "async": lambda: cupy.cuda.MemoryAsyncPool().malloc,
    "none": lambda: None,
}


def state(program):
    return [
        value.get().tobytes() for value in vars(program).values() if isinstance(value, cupy.ndarray)
    ]


def after(program, times):
    for _ in range(times):
        program.step()
    return state(program)


@pytest.fixture(autouse=True)
def the_usual_allocator():
    if REASON:
        yield
        return
    before = cupy.cuda.get_allocator()
    yield
    assert cupy.cuda.get_allocator() == before


@pytest.mark.filterwarnings("ignore::FutureWarning")  # for the asynchronous pool
@pytest.mark.parametrize("allocator", ALLOCATORS)
@pytest.mark.parametrize("make", [network, solver])
def test_replays_with_the_same_bits(make, allocator):
    with cupy.cuda.using_allocator(ALLOCATORS[allocator]()):
        plain = after(make(), 12)
        program = make()
        with pgmo.optimize(framework="cupy") as session:
            for _ in range(12):
                with session.iteration():
                    program.step()
        assert session.history[-1].hit_rate >= 0.99
        assert state(program) == plain


def test_streams_and_a_plan_of_another_session(tmp_path):
    plain = after(network(), 12)
    stream = cupy.cuda.Stream(non_blocking=True)
    for options in ({"save": tmp_path, "model_name": "mlp"}, {"plan": tmp_path / "mlp.pgmoplan"}):
        program = network()
        cupy.cuda.Device().synchronize()
        with stream, pgmo.optimize(framework="cupy", **options) as session:
            for _ in range(12):
                with session.iteration():
                    program.step()
        stream.synchronize()
        assert session.history[-1].hit_rate >= 0.99
        assert state(program) == plain


def test_a_captured_stream_is_not_served():
    program = network()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream, pgmo.optimize(framework="cupy") as session:
        for _ in range(8):
            with session.iteration():
                program.step()
        before = session.statistics["hits"]
        a = cupy.ones(1000)
        _ = a * 2 + 1  # compiles the kernel
        hits = session.statistics["hits"] - before
        stream.begin_capture()
        b = a * 2 + 1
        graph = stream.end_capture()
        assert session.statistics["hits"] == before + hits
        graph.launch(stream)
        stream.synchronize()
        assert (b.get() == 3).all()
        program.step()
        session.step()
