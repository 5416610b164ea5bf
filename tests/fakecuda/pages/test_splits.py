"""A session uses the gaps that an earlier model has left in PyTorch's segments."""

from tests.fakecuda.pages import block_program
from tests.fakecuda.pages.block_program import MIB, PLAIN

BEGIN = (
    PLAIN
    + """
import random
def beneath():
    "Bytes of PyTorch's own segments."
    segments = torch.cuda.memory_snapshot()
    return sum(one["total_size"] for one in segments if not one["is_expandable"])
model = [block(4) for _ in range(20)]  # four segments of 20 MiB
del model[1::2]
"""
)


def run(code: str) -> list:
    return block_program.run(code, begin=BEGIN)


def test_blocks_of_a_session_fill_the_gaps_of_the_model():
    before, after, beyond = run(
        """
with pgmo.optimize(device="cuda") as session:
    before = used()
    state = [block(4) for _ in range(10)]
    after = used()
    state.append(block(4))
    report(before, after, used())
"""
    )
    assert after == before
    assert beyond == before + 4 * MIB  # served from pages


def test_segments_never_grow_for_what_was_expected_to_fit():
    grown, in_gaps, requests = run(
        """
chance, alive, in_gaps = random.Random(3), [], 0
with pgmo.optimize(device="cuda") as session:
    before = beneath()
    gaps = [(one["address"], one["address"] + one["total_size"])
            for one in torch.cuda.memory_snapshot() if not one["is_expandable"]]
    for _ in range(3000):
        if alive and chance.random() < 0.5:
            del alive[chance.randrange(len(alive))]
        alive.append(block(chance.choice([0.3, 1.1, 1.5, 2.2, 2.9, 4, 7])))
        address = alive[-1].data_ptr()
        in_gaps += any(low <= address < high for low, high in gaps)
        del alive[:-8]
    report(beneath() - before, in_gaps, 3000)
"""
    )
    assert grown == 0
    assert in_gaps > requests // 2


def test_a_gap_returns_when_a_library_frees_its_block():
    grown, address_in_gap = run(
        """
with pgmo.optimize(device="cuda") as session:
    before = used()
    gaps = [(one["address"], one["address"] + one["total_size"])
            for one in torch.cuda.memory_snapshot() if not one["is_expandable"]]
    for _ in range(3):
        raw = [torch.cuda.caching_allocator_alloc(4 * MIB) for _ in range(10)]
        inside = all(any(low <= one < high for low, high in gaps) for one in raw)
        for one in raw:
            torch.cuda.caching_allocator_delete(one)
    state = [block(4) for _ in range(10)]
    report(used() - before, inside)
"""
    )
    assert address_in_gap
    assert grown == 0


def test_a_gap_that_another_stream_uses_is_not_expected_to_be_free():
    early, late, wrong, grown = run(
        """
with pgmo.optimize(device="cuda") as session:
    before, side = beneath(), torch.cuda.Stream()
    state = [block(4) for _ in range(9)]
    used_elsewhere = block(4)
    hold(side)
    used_elsewhere.record_stream(side)
    address = used_elsewhere.data_ptr()
    del used_elsewhere
    early = [block(4) for _ in range(3)]
    release(side)
    torch.cuda.synchronize()
    late = [block(4) for _ in range(3)]
    report(*(address in [one.data_ptr() for one in blocks] for blocks in (early, late)),
         violations(), beneath() - before)
"""
    )
    assert not early
    assert not late  # PyTorch frees it at its next request
    assert (wrong, grown) == (0, 0)


def test_a_model_that_shrinks_ends_it():
    moved, inside, grown = run(
        """
with pgmo.optimize(device="cuda") as session:
    before = beneath()
    del model[3]  # between two gaps, which are one now
    blocks = [block(4) for _ in range(12)]
    torch.cuda.empty_cache()
    report(len({one.data_ptr() for one in blocks}), len(blocks), beneath() - before)
"""
    )
    assert moved == inside
    assert grown <= 0


LOOP = """
def train(iterations):
    for at in range(iterations):
        first = [block(4) for _ in range(10)]
        second = [block(30) for _ in range(2)]
        del first
        third = block(30)
        del second, third
        yield at
"""


def test_blocks_that_fit_the_gaps_get_no_slot():
    """With slots, the gaps would be unused, and an iteration would need more memory."""
    plain, hits, moved, outside, peak = run(
        LOOP
        + """
for _ in train(2):
    pass
plain = peak()
torch.cuda.empty_cache()
peak(reset=True)
with pgmo.optimize(device="cuda") as session:
    for _ in train(8):
        if len(session.history) == 6:
            driver_calls(reset=True)
        session.step()
    moved = sum(driver_calls().values())
    last = session.history[-1]
    report(plain, last.hits, moved, last.misses["persistent"], peak())
"""
    )
    assert hits == 3
    assert outside == 10
    assert moved == 0
    assert peak <= plain


def test_freed_segments_are_released_before_the_pages_grow():
    """DDP does this with its first buckets, which are as large as the model."""
    (taken,) = run(
        """
buckets = block(256)
with pgmo.optimize(device="cuda") as session:
    before = used()
    del buckets
    others = [block(64) for _ in range(4)]
    report(used() - before)
"""
    )
    assert taken <= 2 * MIB
