"""How many a mask chooses, where the operators that made it tell."""

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from pgmo.cards import find  # noqa: E402

pytestmark = pytest.mark.skipif(torch.version.cuda is not None, reason="needs a CPU build of torch")

COUNT = 8000


@pytest.fixture(autouse=True)
def run():
    from pgmo.fit.estimate.fake_run import FakeRun

    with FakeRun(find("H100")) as found:
        yield found


def draw(*shape):
    return torch.rand(*shape, device="cuda")


MASKS = {
    "random numbers": (lambda: draw(COUNT) < 0.15, 0.15),
    "the others": (lambda: ~(draw(COUNT) < 0.15), 0.85),
    "above": (lambda: draw(COUNT) >= 0.25, 0.75),
    "choices of experts": (lambda: draw(COUNT // 2, 8).topk(2, dim=-1)[1] == 3, 1 / 8),
    "another view of them": (
        lambda: (draw(COUNT, 4).argmax(-1) == 1).reshape(2, -1).transpose(0, 1),
        1 / 4,
    ),
    "integers": (lambda: torch.randint(5, (COUNT,), device="cuda") != 2, 4 / 5),
    "both": (lambda: (draw(COUNT) < 0.5) & (draw(COUNT) < 0.2), 0.1),
    "one of two": (lambda: (draw(COUNT) < 0.5) | (draw(COUNT) < 0.2), 0.6),
    "classes": (lambda: functional.one_hot(draw(COUNT // 8, 8).argmax(-1), 8) > 0, None),
}


@pytest.mark.parametrize("name", MASKS)
def test_the_share_is_what_the_operators_say(run, name):
    make, share = MASKS[name]
    mask = make()
    rows = mask.nonzero().shape[0]
    assert rows == (mask.numel() if share is None else round(share * COUNT))
    assert mask.masked_select(mask).numel() == rows
    said = "all of them" if share is None else "as if chosen at random"
    assert all(said in note for note in run.assumed)


def test_classes_choose_one_in_as_many():
    hot = functional.one_hot(draw(1000, 8).topk(2, dim=-1)[1], 8).permute(2, 1, 0)
    assert torch.where(hot[5])[0].shape[0] == 2 * 1000 // 8


def test_nothing_is_chosen_of_nothing_and_something_of_something():
    assert (draw(0) < 0.5).nonzero().shape[0] == 0
    assert (draw(3) < 0.01).nonzero().shape[0] == 1


def test_a_mask_that_is_written_to_tells_nothing():
    mask = draw(COUNT) < 0.1
    mask[:] = True
    assert mask.nonzero().shape[0] == COUNT
