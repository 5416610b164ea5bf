"""Tests of features of PyTorch in a session, with the same results as without one."""

import importlib.util

import pytest

torch = pytest.importorskip("torch")

import pgmo  # noqa: E402
from tests.gpu import features  # noqa: E402
from tests.gpu.device import STUB  # noqa: E402
from tests.gpu.running import ITERATIONS, assert_replayed, assert_same, run  # noqa: E402

TRITON = pytest.mark.skipif(
    STUB or importlib.util.find_spec("triton") is None, reason="torch.compile needs triton"
)


def both(program, iterations=ITERATIONS):
    """Return the outcomes without and with a session, and the session."""
    plain = run(program, iterations=iterations)
    with pgmo.optimize(device="cuda") as session:
        under_pgmo = run(program, session, iterations)
    return plain, under_pgmo, session


@pytest.mark.parametrize(
    "program",
    [features.Offloaded, features.Checkpointed, features.MixedPrecision, features.Loaded],
    ids=lambda one: one.__name__,
)
def test_same_bits_and_served_from_slots(program):
    plain, under_pgmo, session = both(program)
    assert_same(plain, under_pgmo)
    assert_replayed(session)


def test_cudnn_benchmark():
    """cuDNN may choose other algorithms in the second run, which round differently."""
    plain, under_pgmo, session = both(features.Benchmarked)
    assert_same(plain, under_pgmo, exact=False)
    assert_replayed(session, hit_bytes=0.5)


@pytest.mark.parametrize(
    "program", [features.Graphed, features.GraphedLate], ids=lambda one: one.__name__
)
def test_cuda_graphs(program):
    # The graph's requests are missing after the capture, so that the session records again.
    plain, under_pgmo, session = both(program, iterations=24)
    assert_same(plain, under_pgmo)
    assert_replayed(session, hit_bytes=0.5)


def test_a_graph_captured_in_a_session_outlives_it():
    torch.manual_seed(0)
    program = features.GraphedLate()
    with pgmo.optimize(device="cuda") as session:
        for index in range(12):
            with session.iteration():
                program.step(index)
    before = [tensor.clone() for tensor in program.state()]
    for index in range(12, 16):
        program.step(index)
    torch.cuda.synchronize()
    if not STUB:
        moved = [not torch.equal(*pair) for pair in zip(before, program.state(), strict=True)]
        assert all(moved)
        assert all(torch.isfinite(tensor).all() for tensor in program.state())


@pytest.fixture
def compiler():
    """Skip the test if torch.compile cannot compile the sine of a few numbers."""
    try:
        torch.compile(torch.sin)(torch.ones(8, device="cuda"))
    except Exception as error:
        pytest.skip(f"torch.compile does not work here: {type(error).__name__}: {error}"[:300])


@TRITON
@pytest.mark.slow
@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    "program", [features.Compiled, features.CompiledWithGraphs], ids=lambda one: one.mode
)
def test_compiled_code(program):
    plain, under_pgmo, session = both(program)
    assert_same(plain, under_pgmo, exact=False)
    assert_replayed(session, hit_bytes=0.3)
