"""A failed request counts only as a failure, and the numbers in its error are right."""

import pytest

from tests.fakecuda.pages.block_program import BEGIN, MIB, PLAIN, newer
from tests.fakecuda.programs import run_program

MESSAGES = """
said = []
def fail(mib):
    try:
        block(mib)
    except torch.OutOfMemoryError as error:
        said.append(str(error).splitlines()[0])
small, first, second = block(0.5), block(400), block(300)
del second
pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    pooled = block(40)
fail(900)
with torch.cuda.use_mem_pool(pool):
    fail(900)
block(100)
torch.cuda.set_per_process_memory_fraction(0.75)
fail(900)
with torch.cuda.use_mem_pool(pool):
    fail(500)
report(*said)
"""

FAILING = {
    "more than the card has": "block(2000)",
    "of a library": "torch.cuda.caching_allocator_alloc(2000 * MIB)",
    "in a pool": """
with torch.cuda.use_mem_pool(pool):
    block(2000)
""",
    "of small blocks, until there is no more": """
held = []
while True:
    held.append(block(64))
""",
}


def run(code: str, **environment: str) -> list:
    return run_program(code, FAKECUDA_BYTES=str(1024 * MIB), **environment)


def test_the_numbers_of_an_error_are_those_of_plain_pytorch():
    plain = run(PLAIN + MESSAGES)
    assert len(plain) == 4
    assert all("1.50 MiB is reserved by PyTorch but unallocated" in one for one in plain)
    assert "768.00 MiB allowed; " in plain[2]
    assert run(BEGIN + MESSAGES) == plain


@pytest.mark.parametrize("failing", FAILING)
@pytest.mark.parametrize(
    "where", ["", "with pgmo.optimize(device='cuda', limit='512 MiB') as opened:"]
)
def test_a_failure_changes_no_statistic_but_its_own(failing, where):
    body = f"""
{where or "if True:"}
    pool = torch.cuda.MemPool()
    kept = [block(100), block(3)]
    with torch.cuda.use_mem_pool(pool):
        pooled = block(40)
    before = torch.cuda.memory_stats()
    try:
        exec({FAILING[failing]!r})
    except torch.OutOfMemoryError:
        pass
    if "held" in globals():
        before = torch.cuda.memory_stats()
        try:
            block(64)
        except torch.OutOfMemoryError:
            pass
    after = torch.cuda.memory_stats()
report({{key: after[key] - before[key] for key in after if after[key] != before[key]}})
"""
    (changed,) = run(BEGIN + body)
    assert changed.pop("num_ooms") == 1
    assert set(changed) <= {"num_alloc_retries", "num_sync_all_streams"}
    assert changed.get("num_alloc_retries", 1) == 1


@pytest.mark.parametrize("session", ["contextlib.nullcontext()", "pgmo.optimize(device='cuda')"])
def test_a_request_that_idle_pages_serve_is_no_failure(session):
    counted = run(
        PLAIN
        + f"""
import contextlib
with {session}:
    first = block(600)
del first
second = block(900)
stats = torch.cuda.memory_stats()
report(stats["num_ooms"], stats["num_alloc_retries"])
"""
    )
    assert counted == [0, 1]


@newer
def test_an_error_after_a_session_counts_what_it_left():
    (said,) = run(
        PLAIN
        + """
with pgmo.optimize(device="cuda"):
    first = block(600)
try:
    block(900)
except torch.OutOfMemoryError as error:
    report(str(error))
"""
    )
    assert "600.00 MiB is allocated by PyTorch, and 0 bytes is reserved" in said
    assert said.endswith("pgmo: its pages hold 600.00 MiB, of which 600.00 MiB are in use.")
