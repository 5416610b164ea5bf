"""PyTorch's memory statistics count pages."""

import pytest

from tests.fakecuda.pages.block_program import MIB, PLAIN, newer, run


@newer
@pytest.mark.parametrize("begin", ["", "pgmo.optimize(device='cuda').__enter__()"])
def test_any_accelerators_functions_know_of_pages(begin):
    before, after = run(
        f"""
{begin}
kept, gone = block(6), block(50)
del gone
before = torch.accelerator.memory_allocated(), torch.accelerator.memory_reserved()
torch.accelerator.empty_cache()
report(before, (torch.accelerator.memory_reserved(), used()))
"""
    )
    assert before[0] == 6 * MIB
    assert before[1] >= 56 * MIB
    assert after == [6 * MIB, 6 * MIB]


@newer
def test_after_a_session_an_accelerators_functions_count_what_it_left():
    (allocated,) = run(
        """
with pgmo.optimize(device="cuda"):
    inside = block(8)
after = block(4)
report(torch.accelerator.memory_allocated())
""",
        begin=PLAIN,
    )
    assert allocated == 12 * MIB


@pytest.mark.parametrize("environment", [{}, {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}])
def test_without_caching_the_driver_serves(environment):
    held, back, again = run(
        f"""
torch.cuda.init()
if {not environment}:
    torch.cuda.caching_allocator_enable(False)
single = block(2)
held = used()
del single
back = used()
if {not environment}:
    torch.cuda.caching_allocator_enable(True)
kept = block(2)
report(held, back, torch.cuda.memory_allocated())
""",
        **environment,
    )
    assert (held, back) == (2 * MIB, 0)
    assert again == (0 if environment else 2 * MIB)


@pytest.mark.parametrize("pages", [True, False])
def test_a_session_heeds_that_caching_was_off_before(pages):
    (held,) = run(
        f"""
torch.cuda.init()
before = used()
torch.cuda.caching_allocator_enable(False)
with pgmo.optimize(device="cuda", pages={pages}) as session:
    for _ in range(6):
        with session.iteration():
            block(8)
    report(used() - before)
""",
        begin=PLAIN,
    )
    assert held == 0
