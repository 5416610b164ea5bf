"""Conditions under which pages move between blocks and streams."""

import pytest

from tests.fakecuda.pages.block_program import MIB, run


def test_a_program_needs_as_much_as_lives_at_once():
    card, live = run(
        """
for turn in range(6):
    rows = [block(3 + (turn * 7 + at * 5) % 11) for at in range(12)]
    rows = rows[::2]
    rows += [block(17 - turn)]
    del rows
report(peak(), torch.cuda.max_memory_allocated())
"""
    )
    assert card <= 1.03 * live + 4 * MIB


def test_a_whole_card_is_mapped_once():
    created, again, released, left = run(
        """
blocks = [block(1024) for _ in range(139)]
created = driver_calls(reset=True)["create"]
del blocks
blocks = [block(1536) for _ in range(92)]
again = sum(driver_calls(reset=True).values())
del blocks
torch.cuda.empty_cache()
report(created, again, driver_calls()["release"], used())
""",
        FAKECUDA_BYTES=str(141 << 30),
    )
    assert 139 * 512 <= created <= 139 * 512 + 1  # and a page to test a second mapping
    assert again == 0
    assert released == 139 * 512
    assert left == 0


def test_memory_that_is_still_in_use_is_not_unmapped_or_handed_over():
    broken, lent = run(
        """
side = torch.cuda.Stream()
with torch.cuda.stream(side):
    first = block(64); first.fill_(1)
violations(reset=True)
hold(side)
with torch.cuda.stream(side):
    first.fill_(2)
del first                                # its work is pending
second = block(120); second.fill_(3)     # on the default stream, on a card of 128 MiB
broken = violations()
release(side)
report(broken, driver_calls()["map"] > driver_calls()["create"])
""",
        FAKECUDA_BYTES=str(128 * MIB),
    )
    assert broken == 0
    assert lent


def test_a_recorded_stream_keeps_a_block_from_being_used_again():
    broken = run(
        """
side = torch.cuda.Stream()
first = block(64); first.fill_(1)
torch.cuda.synchronize()
violations(reset=True)
hold(side)
with torch.cuda.stream(side):
    first.fill_(2)
first.record_stream(side)
del first
others = [block(64) for _ in range(2)]
for other in others: other.fill_(3)
count = violations()
release(side)
report(count)
""",
        FAKECUDA_BYTES=str(256 * MIB),
    )
    assert broken == [0]


def test_a_stream_goes_on_beside_one_that_uses_its_block():
    elsewhere, waited, again = run(
        """
side = torch.cuda.Stream()
block(8)  # so many pages have been used, and idle
torch.cuda.synchronize()
with torch.cuda.stream(side):
    first = block(1 / 4)
at = first.data_ptr()
hold(torch.cuda.current_stream())
first.fill_(1)
first.record_stream(torch.cuda.current_stream())
del first
with torch.cuda.stream(side):
    second = block(1 / 4)
    at_once = side.query()
torch.cuda.synchronize()
release(torch.cuda.current_stream())
with torch.cuda.stream(side):
    third = block(1 / 4)
report(second.data_ptr() != at, not at_once, third.data_ptr() == at)
"""
    )
    assert elsewhere
    assert not waited
    assert again


def test_pages_used_by_a_graph_stay_mapped():
    same, value = run(
        """
static = torch.ones(1 << 20, device="cuda")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    out = torch.empty_like(static)
    out.copy_(static)
address = static.data_ptr()
del static
others = [block(3) for _ in range(4)]
torch.cuda.empty_cache()
from tests.fakecuda import driver
report(driver.is_mapped(address), len(others))
"""
    )
    assert same
    assert value == 4


@pytest.mark.parametrize(("stale", "kept"), [("0", True), ("1", False)])
def test_pages_have_one_address_at_a_time_where_a_second_one_would_not_agree(stale, kept):
    code = """
from tests.fakecuda import driver
first = block(64); first.fill_(5)
address = first.data_ptr()
del first
side = torch.cuda.Stream()
with torch.cuda.stream(side):        # other addresses, and all pages of the first
    second = block(64); second.fill_(7)
report([driver.is_mapped(address + at * MIB) for at in range(4, 60, 4)])
"""
    (mapped,) = run(code, FAKECUDA_STALE_ALIASES=stale, FAKECUDA_BYTES=str(64 * MIB + 4 * MIB))
    assert set(mapped) == {kept}
