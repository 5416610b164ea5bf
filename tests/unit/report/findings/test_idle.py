from pgmo.profiler.profile import Profile
from pgmo.profiler.tag import Tag
from pgmo.report.findings.attribution import peak_tick
from pgmo.report.findings.idle import find_idle

TAGS = (Tag("Net", "a", "forward"), Tag("Net", "b", "backward"), Tag("SGD", "c", "optimizer"))


def profile() -> Profile:
    """Two activations, two gradients of which one lives on, and a temporary of the optimizer."""
    return Profile.from_columns(
        size=[1000, 1000, 300, 800, 50],
        start=[0, 1, 2, 3, 4],
        end=[4, 3, 6, 5, 5],
        ticks=5,
        tag=[0, 0, 1, 1, 2],
        tags=TAGS,
    )


def test_the_largest_for_the_longest_come_first_and_say_where_the_peak_lies():
    one = profile()
    tick = peak_tick(one)
    assert tick == 2
    first, second, third = find_idle(one, tick)
    assert (first.row, first.before, first.after, first.share) == (0, 2, 2, 0.8)
    assert (second.row, second.before, second.after) == (1, 1, 1)
    assert third.row == 2
    assert [block.row for block in find_idle(one, tick, top=1)] == [0]


def test_only_what_the_backward_pass_frees_counts_as_saved_for_it():
    one = profile()
    blocks = {block.row: block for block in find_idle(one, peak_tick(one))}
    assert (blocks[0].born, blocks[0].dies, blocks[0].saved) == ("forward", "backward", True)
    assert blocks[1].saved
    # The gradient is freed after the next iteration's first request.
    assert (blocks[2].born, blocks[2].dies, blocks[2].saved) == ("backward", "forward", False)


def test_a_block_of_the_iteration_before_has_its_request_before_the_peak():
    wrapping = Profile.from_columns(size=[8, 9], start=[3, 0], end=[6, 1], ticks=4)
    (block,) = [one for one in find_idle(wrapping, 0) if one.row == 0]
    assert (block.before, block.after) == (1, 2)
    assert (block.born, block.dies) == ("", "")
