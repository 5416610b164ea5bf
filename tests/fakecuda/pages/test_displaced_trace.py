"""PyTorch notifies one GPU trace of events, and another library's trace replaces pgmo's."""

import pytest

from tests.fakecuda.pages.block_program import run

PROGRAM = """
from torch.cuda import _gpu_trace
one, other = torch.cuda.Stream(), torch.cuda.Stream()
ones = torch.ones(32 * MIB, dtype=torch.uint8).pin_memory()
waits_seen = []
def turn():
    one.wait_stream(other)
    with torch.cuda.stream(one):
        first = block(32)
        first.copy_(ones, non_blocking=True)
        del first
    other.wait_stream(one)
    with torch.cuda.stream(other):
        second = block(32)
        second.copy_(ones, non_blocking=True)
with pgmo.optimize(device="cuda") as session:
    for number in range(14):
        if number == {when}:
            _gpu_trace.register_callback_for_event_wait(lambda *one: waits_seen.append(one))
            torch._C._activate_gpu_trace()
        turn(); session.step()
    waits_seen.clear()
    violations(reset=True)
    then = dict(session.statistics)
    for _ in range(3):
        hold(one); hold(other)
        turn()
        unordered = violations(kernels=False)
        release(one); release(other)
        session.step()
    now = session.statistics
    changed = {{key: now[key] - then[key] for key in now}}
    notes = session.summary().notes
report(unordered, changed, session.history[-1].hits, len(waits_seen),
     [note for note in notes if "_activate_gpu_trace" in note],
     [note for note in session.summary().notes if "_activate_gpu_trace" in note])
"""


@pytest.mark.parametrize("when", [0, 1, 2, 10])
def test_it_is_noticed_said_once_and_both_get_later_events(when):
    unordered, changed, hits, waits_seen, notes, notes_at_the_end = run(PROGRAM.format(when=when))
    assert unordered == 0
    assert hits == 2
    assert waits_seen == 3 * 2  # the other library's callback
    assert changed["page_waits_added"] == 0  # pgmo's trace
    if when == 10:  # the plan was made before, and its hand-overs wait
        assert changed["page_waits"] > 0
    assert len(notes) == 1
    assert notes_at_the_end == notes


def test_nothing_is_reported_without_another_callback():
    unordered, changed, hits, waits_seen, notes, _ = run(PROGRAM.format(when=-1))
    assert unordered == 0
    assert hits == 2
    assert waits_seen == 0
    assert changed["page_waits_added"] == 0
    assert notes == []
