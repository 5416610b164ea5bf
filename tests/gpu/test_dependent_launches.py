"""Tests of kernels that begin before the kernel on which they depend has ended.

Pages rely on CUDA's rule for virtual aliasing: a grid that begins after a write reads the written
value through any address. With programmatic dependent launches, a grid begins earlier, as does a
grid that waits for another one.
"""

import random

import pytest

torch = pytest.importorskip("torch")
triton = pytest.importorskip("triton")

import triton.language as tl  # noqa: E402

import pgmo  # noqa: E402
from tests.gpu.device import PAGES, STUB  # noqa: E402

cuda = pytest.importorskip("triton.language.extra.cuda")

pytestmark = [
    pytest.mark.skipif(STUB, reason="the stub runs no kernels"),
    pytest.mark.skipif(not PAGES, reason="without pages a block has one address"),
]

WIDTH = 1024
LARGEST = 8 << 20  # elements
STEPS = 24
ITERATIONS = 20


@triton.jit
def successor(source, source_elements, target, elements, width: tl.constexpr):
    """Write the values of the predecessor plus one, from other positions."""
    cuda.gdc_launch_dependents()
    at = tl.program_id(0) * width + tl.arange(0, width)
    cuda.gdc_wait()
    value = tl.load(source + at * 7 % source_elements, mask=at < elements)
    tl.store(target + at, value + 1, mask=at < elements)


@triton.jit
def reader(flag, source, target, width: tl.constexpr):
    """Begin before the source is written, and read it once the flag is set."""
    polls = 0
    while (tl.atomic_add(flag, 0, sem="acquire") == 0) & (polls < 100_000_000):
        polls += 1
    at = tl.arange(0, width)
    tl.store(target + at, tl.load(source + at, volatile=True))


@pytest.fixture(autouse=True)
def hopper():
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("dependent launches need compute capability 9.0")
    if not hasattr(cuda, "gdc_wait"):
        pytest.skip("this triton has no dependent launches")


def blocks(generator):
    """Run a chain of kernels, each of which writes a block of random size."""
    last = torch.zeros(LARGEST, dtype=torch.int32, device="cuda")
    for _ in range(STEPS):
        elements = generator.randrange(LARGEST // 16, LARGEST)
        new = torch.empty(elements, dtype=torch.int32, device="cuda")
        grid = (triton.cdiv(elements, WIDTH),)
        successor[grid](last, last.numel(), new, elements, width=WIDTH, launch_pdl=True)
        last = new
    return last


def assert_lent(session):
    """Check that pages moved between addresses at least once for each iteration on average."""
    assert sum(one.pages_moved for one in session.history) >= ITERATIONS


def test_successors_read_what_was_written_at_lent_pages():
    generator = random.Random(0)
    with pgmo.optimize(device="cuda") as session:
        for _ in range(ITERATIONS):
            with session.iteration():
                last = blocks(generator)
                assert bool((last == STEPS).all())
                del last
        assert_lent(session)


def test_a_grid_that_waits_reads_what_was_written_after_it_began():
    generator = random.Random(1)
    waiting = torch.cuda.Stream()
    with pgmo.optimize(device="cuda") as session:
        for index in range(ITERATIONS):
            with session.iteration():
                blocks(generator)  # moves pages
                elements = generator.randrange(LARGEST // 16, LARGEST)
                source = torch.zeros(elements, dtype=torch.int32, device="cuda")
                seen = torch.empty(WIDTH, dtype=torch.int32, device="cuda")
                flag = torch.zeros(1, dtype=torch.int32, device="cuda")
                waiting.wait_stream(torch.cuda.current_stream())
                with torch.cuda.stream(waiting):
                    reader[(1,)](flag, source, seen, width=WIDTH)
                source.fill_(index + 1)
                flag.fill_(1)
                torch.cuda.synchronize()
                assert bool((seen == index + 1).all())
        assert_lent(session)
