import pytest

from pgmo.runner.step_pattern import StepPattern


def cut(steps, existing=None):
    """Return the steps, with a bar after each step that ends an iteration."""
    pattern = StepPattern()
    names = set(existing or steps)
    return "".join(s + ("|" if pattern.ends_iteration(s, names) else "") for s in steps)


def test_one_optimizer_ends_an_iteration_with_each_step():
    assert cut("AAAA") == "A|A|A|A|"


@pytest.mark.parametrize("period", ["DG", "DDDDDG", "DGG", "ABC", "D" * 7 + "G"])
def test_several_optimizers_make_one_iteration(period):
    last = cut(period * 6).split("|")[-4:-1]
    assert [len(one) for one in last] == [len(period)] * 3
    assert len(set(last)) == 1


def test_the_first_cycle_of_a_gan_is_one_iteration_already():
    assert cut("DGDG") == "DG|DG|"


def test_pairs_of_steps_end_where_the_order_repeats():
    assert cut("AABB" * 5).endswith("|AABB|AABB|")


def test_an_optimizer_that_never_steps_is_not_waited_for_long():
    assert cut("A" * 12, existing="AB") == "A" * 8 + "|A|A|A|A|"


def test_a_second_optimizer_may_come_later():
    assert cut("A" * 20 + "AB" * 20).endswith("|A|BA|B" + "|AB" * 18 + "|")


def test_many_optimizers_go_by_who_has_stepped():
    names = [f"layer{n}" for n in range(100)]
    pattern = StepPattern()
    ends = [pattern.ends_iteration(name, set(names)) for _ in range(3) for name in names]
    assert [n for n, end in enumerate(ends) if end] == [99, 199, 299]


def test_one_that_goes_away_is_not_waited_for():
    pattern = StepPattern()
    for name in "DGDG":
        pattern.ends_iteration(name, {"D", "G"})
    ends = [pattern.ends_iteration("D", {"D"}) for _ in range(4)]
    assert ends[-1]
    assert ends[-2]
