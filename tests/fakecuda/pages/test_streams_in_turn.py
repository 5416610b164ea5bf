"""Streams that take turns share the pages of their plan, and none overtakes pending work."""

from tests.fakecuda.pages.block_program import run

TURNS = """
one, other = torch.cuda.Stream(), torch.cuda.Stream()
ones = torch.ones(32 * MIB, dtype=torch.uint8).pin_memory()
def turn():
    with torch.cuda.stream(one):
        first = block(32)
        first.copy_(ones, non_blocking=True)
        del first
    with torch.cuda.stream(other):
        second = block(32)
        second.copy_(ones, non_blocking=True)
before = used()
with pgmo.optimize(device="cuda") as session:
    for _ in range(8):
        turn(); session.step()
    taken, then = used() - before, dict(session.statistics)
    violations(reset=True)
    {body}
    now = session.statistics
    changed = {{key: now[key] - then[key] for key in now}}
    report(taken, changed, now["planned_pages"], session.history[-1].hits)
"""


def test_pages_of_a_plan_change_hands_without_a_call_of_the_driver():
    taken, changed, pages, hits = run(
        TURNS.format(body="for _ in range(4): turn(); session.step()")
    )
    assert hits == 2
    assert pages == 32 << 20
    assert taken < 40 << 20  # without sharing it would be 64 MiB
    assert changed["page_maps"] == 0
    assert changed["page_hand_overs"] == 4 * 2 * 16  # in both directions, pages of 2 MiB


def test_a_stream_waits_for_the_delayed_work_of_the_one_before_it():
    """The stub knows the bytes of copies, and notices one that overtakes a pending copy."""
    unordered, waits, maps = run(
        TURNS.format(
            body="""
    hold(one)
    with torch.cuda.stream(one):
        first = block(32)
        first.copy_(ones, non_blocking=True)
        del first
    with torch.cuda.stream(other):
        second = block(32)
        second.copy_(ones, non_blocking=True)
    unordered = violations(kernels=False)
    release(one)
"""
        ).rpartition("    report(")[0]
        + '    report(unordered, changed["page_waits"], changed["page_maps"])\n'
    )
    assert unordered == 0
    assert waits == 1
    assert maps == 0
