"""If the driver refuses valid calls, pages continue, or PyTorch's allocator serves."""

import pytest

from tests.fakecuda.pages.block_program import MIB, run

AFTER_A_FAULT = """
from tests.fakecuda.control import refuse

def held():
    stats = torch.cuda.memory_stats()
    keys = ("allocated_bytes.all.current", "active.all.current", "reserved_bytes.all.current")
    return [stats[key] for key in keys]

kept = block(10)
before = held()
wrong = []
for kind in ("create", "map", "set_access", "reserve"):
    for behind in (0, 1, 7):
        for count in (1, 2, 40):
            refuse(kind, behind=behind, count=count)
            blocks = []
            for mib in (3, 0.2, 40, 9):
                try:
                    blocks.append(block(mib))
                    blocks[-1][:4].fill_(1)
                except torch.OutOfMemoryError:
                    pass
            refuse(kind, count=0)
            del blocks
            torch.cuda.empty_cache()
            if held() != before or used() != before[2]:
                wrong.append((kind, behind, count, held(), used()))
driver_calls(reset=True)
for at in range(1000):
    block(at % 50 + 1)
for at in range(100):
    torch.empty(12345, device="cuda")
torch.cuda.empty_cache()
after = driver_calls()
report(
    wrong, held() == before, used() == before[2],
    after["create"] == after["release"], violations(),
    torch.cuda.memory_stats()["num_ooms"],
)
"""


def test_after_calls_that_were_refused_everything_goes_on_and_nothing_leaks():
    assert run(AFTER_A_FAULT) == [[], True, True, True, 0, 0]


CAUGHT = """
from tests.fakecuda.control import refuse
kept = block(100)
reserved = torch.cuda.memory_reserved()
errors = []
for kind in ("create", "map", "set_access"):
    refuse(kind, count=1 << 20)
    refuse("reserve", count=1 << 20)
    blocks = []
    try:
        for _ in range(20):
            blocks.append(block(100))
    except torch.OutOfMemoryError as error:
        errors.append(kind)
    del blocks
    torch.cuda.empty_cache()
    for one in ("create", "map", "set_access", "reserve"):
        refuse(one, count=0)
allocated = []
for _ in range(1000):
    allocated.append(block(0.5))
count = len(allocated)
del allocated
torch.cuda.empty_cache()
report(errors, count, torch.cuda.memory_reserved() - reserved, used() - reserved)
"""


def test_a_full_card_is_an_error_that_can_be_caught_while_the_driver_refuses_pages():
    assert run(CAUGHT, FAKECUDA_BYTES=str(1024 * MIB)) == [
        ["create", "map", "set_access"],
        1000,
        0,
        0,
    ]


IN_A_SESSION = """
from tests.fakecuda.control import refuse
with pgmo.optimize(device="cuda") as session:
    for iteration in range(12):
        if iteration in (2, 5, 8):
            refuse({2: "create", 5: "map", 8: "set_access"}[iteration], behind=1, count=3)
        with session.iteration():
            a = block(3 + iteration % 2)
            b = block(20)
            del a
            c = block(7)
            del b, c
    live = session.statistics["live_slot_bytes"]
torch.cuda.synchronize()
torch.cuda.empty_cache()
report(live, torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), used(), violations())
"""


def test_a_session_goes_on_as_well():
    assert run(IN_A_SESSION) == [0, 0, 0, 0, 0]


ON_WSL = """
blocks = [block(3) for _ in range(100)]
for one in blocks:
    one[:4].fill_(1)
calls = driver_calls()
held = torch.cuda.memory_reserved()
segments = torch.cuda.memory_snapshot()
report(calls["map"] >= 150, held // MIB, {one["is_expandable"] for one in segments} == {True})
"""


def test_pages_are_served_where_memory_for_network_cards_gives_no_access():
    assert run(ON_WSL, FAKECUDA_NO_RDMA_ACCESS="1") == [True, 300, True]


NO_ACCESS = """
from tests.fakecuda.control import refuse
refuse("set_access", count=1 << 20)
blocks = [block(30) for _ in range(20)]
calls = driver_calls()
reserved = torch.cuda.memory_reserved() // MIB
report(calls["create"] - calls["release"], calls["create"] < 10, reserved)
"""


def test_a_driver_that_never_gives_access_leaves_everything_to_pytorch():
    held, few, reserved = run(NO_ACCESS)
    assert (held, few) == (0, True)
    assert reserved == pytest.approx(600, abs=80)
