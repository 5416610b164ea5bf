"""Pages respect memory fractions, a session's limit, and the card's memory."""

import pytest

from tests.fakecuda.pages.block_program import MIB, PLAIN, newer, run


@pytest.mark.parametrize(("pages", "warm"), [("0", "1"), ("1", "1"), ("1", "")])
def test_a_memory_fraction_is_kept(pages, warm):
    said, held = run(
        """
if os.environ["WARM"]: torch.empty(1, device="cuda")
torch.cuda.set_per_process_memory_fraction(0.25)
kept = [block(32) for _ in range(7)]
try:
    block(64)
    said = ""
except torch.OutOfMemoryError as error:
    said = str(error)
report(said, used())
""",
        FAKECUDA_BYTES=str(1024 * MIB),
        PGMO_PAGES=pages,
        WARM=warm,
    )
    assert said.startswith("CUDA out of memory. Tried to allocate 64.00 MiB")
    assert held <= 256 * MIB


@newer
def test_a_fraction_is_one_for_pages_and_pools():
    said, served, held, fraction = run(
        """
torch.cuda.set_per_process_memory_fraction(0.25)
pool, spare = torch.cuda.MemPool(), torch.cuda.MemPool(use_on_oom=True)
with torch.cuda.use_mem_pool(pool):
    first = block(100)
with torch.cuda.use_mem_pool(spare):
    second = block(100)
at = second.data_ptr()
del second
said = []
for size in (100, 110):
    try:
        said.append(block(size).data_ptr() == at)
    except torch.OutOfMemoryError as error:
        said.append(str(error))
kept = block(40)  # pages
try:
    with torch.cuda.use_mem_pool(pool):
        block(60)
except torch.OutOfMemoryError:
    said.append("refused")
report(said[1], (said[0], said[2]), used(), torch.cuda.get_per_process_memory_fraction())
""",
        FAKECUDA_BYTES=str(1024 * MIB),
        PGMO_POOLS="0",
    )
    assert said.startswith("CUDA out of memory. Tried to allocate 110.00 MiB")
    assert served == [True, "refused"]
    assert held <= 256 * MIB
    assert fraction == 0.25


@newer
def test_a_fraction_is_one_for_pages_and_pools_that_pages_serve():
    said, refused, held = run(
        """
torch.cuda.set_per_process_memory_fraction(0.25)
pool, spare = torch.cuda.MemPool(), torch.cuda.MemPool(use_on_oom=True)
with torch.cuda.use_mem_pool(pool):
    first = block(100)
with torch.cuda.use_mem_pool(spare):
    second = block(100)
del second
third = block(100)  # the pages of the second
said = []
for where in (pool, spare):
    try:
        with torch.cuda.use_mem_pool(where):
            block(60)
    except torch.OutOfMemoryError as error:
        said.append(str(error))
report(said[0], len(said), used())
""",
        FAKECUDA_BYTES=str(1024 * MIB),
    )
    assert said.startswith("CUDA out of memory. Tried to allocate 60.00 MiB")
    assert refused == 2
    assert held <= 256 * MIB


def test_a_fraction_outlasts_a_session():
    fractions, served = run(
        """
before = torch.empty(1, device="cuda")
torch.cuda.set_per_process_memory_fraction(0.5)
with pgmo.optimize(device="cuda"):
    kept = [block(100) for _ in range(5)]
    try:
        torch.empty(100 << 20, device="cuda")
    except torch.OutOfMemoryError:
        pass
    inside = torch.cuda.get_per_process_memory_fraction()
del kept
after = block(500)
report((inside, torch.cuda.get_per_process_memory_fraction()), len(after) >> 20)
""",
        begin=PLAIN,
        FAKECUDA_BYTES=str(1024 * MIB),
    )
    assert fractions == [0.5, 0.5]
    assert served == 500


def test_a_fraction_does_not_outlast_the_pages_that_used_it_up():
    served, fraction = run(
        """
torch.cuda.set_per_process_memory_fraction(0.5)
with pgmo.optimize(device="cuda"):
    raw = torch.cuda.caching_allocator_alloc(1 << 20)  # so that the adapter stays
    kept = []
    try:
        while True:
            kept.append(block(50))
    except torch.OutOfMemoryError:
        pass
    kept.clear()
kept = [block(50) for _ in range(9)]
report(len(kept), torch.cuda.get_per_process_memory_fraction())
""",
        begin=PLAIN,
        FAKECUDA_BYTES=str(1024 * MIB),
    )
    assert served == 9
    assert fraction == 0.5


def test_a_fraction_leaves_the_current_device_alone():
    (devices,) = run(
        """
torch.cuda.set_per_process_memory_fraction(0.5, 0)
torch.cuda.set_device(1)
devices = []
with pgmo.optimize(device="cuda:0"):
    kept = torch.empty(50 << 20, dtype=torch.uint8, device="cuda:0")
    with torch.cuda.use_mem_pool(torch.cuda.MemPool(), 0):
        devices.append(torch.cuda.current_device())
devices.append(torch.cuda.current_device())
report(devices)
""",
        begin=PLAIN,
        FAKECUDA_DEVICES="2",
    )
    assert devices == [1, 1]


def test_a_fraction_does_not_lift_the_limit_of_a_session():
    (held,) = run(
        """
torch.cuda.init()
with pgmo.optimize(device="cuda", limit="100 MiB"):
    torch.cuda.set_per_process_memory_fraction(0.5)
    kept = []
    try:
        while len(kept) < 30:
            kept.append(block(10))
    except torch.OutOfMemoryError:
        pass
    report(len(kept))
""",
        begin=PLAIN,
        FAKECUDA_BYTES=str(1024 * MIB),
    )
    assert held == 10


def test_a_full_card_is_reported_in_torchs_words():
    said, again = run(
        """
kept = [block(100) for _ in range(9)]
try:
    block(200)
    said = ""
except torch.OutOfMemoryError as error:
    said = str(error)
del kept
report(said, len(block(900)) // MIB)
""",
        FAKECUDA_BYTES=str(1024 * MIB),
    )
    assert said.startswith("CUDA out of memory. Tried to allocate 200.00 MiB. GPU 0 has a total")
    assert "pgmo: its pages hold 900.00 MiB, of which 900.00 MiB are in use." in said
    assert again == 900
