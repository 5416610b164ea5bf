"""`pgmo.extrapolate`: what it takes, what it refuses, and the profiles that come of it."""

import numpy as np
import pytest

import pgmo
from pgmo.errors import OptionError, ProfileError
from pgmo.profiler.profile import NEVER, ProfileMeta
from pgmo.profiler.tag import Tag

TAGS = (Tag("Net.a", "aten.mm", "forward"), Tag("Net.b", "aten.gelu", "forward"))


def profile(batch, length=16, **more):
    """Four requests: a weight's gradient, activations, scores, and state that stays."""
    columns = {
        "size": [640, 4 * batch * length, 2 * batch * length**2, 96],
        "start": [0, 1, 2, 3],
        "end": [6, 3, 4, NEVER],
        "ticks": 4,
        "tag": [0, 0, 1, 1],
        "tags": TAGS,
        "meta": ProfileMeta(device="cpu", notes={"found": "in a test"}),
    }
    return pgmo.Profile.from_columns(**{**columns, **more})


@pytest.fixture
def guess():
    return pgmo.extrapolate([profile(2), profile(4), profile(8)], batch=[2, 4, 8])


def test_the_profile_is_the_one_that_would_have_been_recorded(guess):
    told, truth = guess.at(batch=64), profile(64)
    assert not told.varying.any()
    for column in ("size", "end", "tag", "persistent", "shared", "thread"):
        assert np.array_equal(getattr(told, column), getattr(truth, column))
    assert told.tags == TAGS
    assert told.steady
    assert pgmo.plan(told).arena == pgmo.plan(truth).arena


def test_it_says_where_it_comes_from(guess):
    notes = guess.at(batch=64).meta.notes
    assert notes["extrapolated"] == "to batch=64 from batch=2; batch=4; batch=8"
    assert notes["found"] == "in a test"


def test_it_can_be_saved_and_read(guess, tmp_path):
    path = tmp_path / "large.pgmoprof"
    guess.at(batch=64).save(path)
    assert pgmo.Profile.load(path).fingerprint == guess.at(batch=64).fingerprint


def test_files_are_read_and_the_order_does_not_matter(tmp_path):
    for batch in (2, 4, 8):
        profile(batch).save(tmp_path / f"{batch}.pgmoprof")
    paths = [tmp_path / f"{batch}.pgmoprof" for batch in (8, 2, 4)]
    guess = pgmo.extrapolate(paths, batch=[8, 2, 4])
    assert np.array_equal(guess.at(batch=64).size, profile(64).size)


def test_batch_and_length_at_once():
    grid = [(2, 16), (4, 16), (2, 32), (4, 32), (2, 64), (8, 64)]
    batch, length = zip(*grid, strict=True)
    guess = pgmo.extrapolate([profile(*point) for point in grid], batch=batch, length=length)
    assert np.array_equal(guess.at(length=160, batch=32).size, profile(32, 160).size)
    assert not guess.ambiguous.any()
    assert guess.checked.all()


def test_a_workspace_is_estimated_and_held_out_to_show_how_well():
    sizes = {2: 544768, 4: 1069056, 8: 2125824}
    given = [profile(b, size=[640, 64 * b, size, 96]) for b, size in sizes.items()]
    guess = pgmo.extrapolate(given, batch=[2, 4, 8])
    assert guess.kinds.tolist() == ["constant", "affine", "upper", "constant"]
    assert not guess.residuals.any()
    assert guess.held_out[2] != 0
    assert not guess.held_out[[0, 1, 3]].any()
    assert "1 upper; batch=8 predicted but for" in repr(guess)


def test_estimates_and_scratch_are_varying():
    sizes = {2: 544768, 4: 1069056, 8: 2125824}
    given = [
        profile(b, size=[640 * b, 64 * b, size, 96], end=[6, 2, 5, NEVER])
        for b, size in sizes.items()
    ]
    large = pgmo.extrapolate(given, batch=[2, 4, 8]).at(batch=64)
    assert large.varying.tolist() == [False, True, True, False]


def test_workspaces_of_reductions_on_cuda_are_varying():
    meta = ProfileMeta(device="cuda:0")
    given = [profile(b, meta=meta, tag=[0, 1, 1, 1]) for b in (2, 4, 8)]
    large = pgmo.extrapolate(given, batch=[2, 4, 8]).at(batch=64)
    assert large.varying.tolist() == [False, True, True, False]


def test_two_profiles_leave_nothing_to_hold_out():
    guess = pgmo.extrapolate([profile(2), profile(4)], batch=[2, 4])
    assert guess.held_out is None
    assert guess.at(batch=64).size[1] == 4 * 64 * 16
    assert guess.checked.tolist() == [True, True, True, True]  # a multiple of the batch: one term


def test_longest_lifetimes_count():
    given = [profile(2), profile(4, end=[6, 4, 4, NEVER]), profile(8, end=[6, 3, 4, 7])]
    assert pgmo.extrapolate(given, batch=[2, 4, 8]).at(batch=16).end.tolist() == [6, 4, 4, NEVER]


def test_sizes_that_a_log_has_rounded_stay_rounded():
    meta = ProfileMeta(device="cuda:0")

    def logged(batch):
        return profile(
            batch, size=[512, -(-1000 * batch // 512) * 512, 512 * batch, 1024], meta=meta
        )

    large = pgmo.extrapolate([logged(2), logged(4), logged(8)], batch=[2, 4, 8]).at(batch=64)
    assert not np.any(large.size % 512)
    assert 64000 <= large.size[1] <= 1.06 * 64000


def many(batch, extra=0):
    """The four requests a dozen times over, and workspaces that are asked for in between."""
    sizes, tags = [640, 64 * batch, 32 * batch, 96] * 12, [0, 0, 1, 1] * 12
    for size in [64 * batch, 5][:extra]:
        sizes.insert(30, size)
        tags.insert(30, 1)
    count = len(sizes)
    return profile(
        batch,
        size=sizes,
        tag=tags,
        start=range(count),
        end=[count + 2, *range(2, count + 1)],
        ticks=count,
    )


def test_optional_requests_are_those_of_the_largest_profile():
    guess = pgmo.extrapolate([many(2), many(4), many(8, extra=2)], batch=[2, 4, 8])
    assert np.flatnonzero(guess.optional).tolist() == [30, 31]
    assert "1 unchecked, 2 optional" in repr(guess)  # one has the size of a tensor
    large = guess.at(batch=64)
    assert large.size[30:32].tolist() == [5, 64 * 64]
    assert np.array_equal(large.size, many(64, extra=2).size)
    assert large.end[0] == large.ticks + 2
    # Where it was not asked for, its whole size is off.
    assert guess.residuals[:, 30].tolist() == [5, 5, 0]
    assert guess.held_out[30] == -5
    assert guess.left_over == (0, 0, 0)


def test_what_only_small_profiles_have_is_left_over():
    guess = pgmo.extrapolate([many(2, extra=1), many(4), many(8)], batch=[2, 4, 8])
    assert not guess.optional.any()
    assert guess.left_over == (128, 0, 0)
    assert np.array_equal(guess.at(batch=64).size, many(64).size)


def test_profiles_of_another_program_are_refused():
    other = profile(4, tags=(TAGS[0], Tag("Net.c", "aten.gelu_", "forward")))
    with pytest.raises(ProfileError, match=r"request 2: .*Net\.b.*batch=2.*Net\.c.*batch=4"):
        pgmo.extrapolate([profile(2), other], batch=[2, 4])


def test_a_size_that_would_vanish_is_named():
    given = [profile(b, size=[640 - 10 * b, 64, 64, 96]) for b in (2, 4, 8)]
    guess = pgmo.extrapolate(given, batch=[2, 4, 8])
    with pytest.raises(ProfileError, match="request 0 would have 0 bytes at batch=64"):
        guess.at(batch=64)


def test_a_size_beyond_all_bounds_is_refused(guess):
    with pytest.raises(ProfileError, match="size is"):
        guess.at(batch=2**60)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({}, "no parameter"),
        ({"batch": [2, 4]}, "2 values for 3 profiles"),
        ({"batch": [2, 4, 0]}, "whole number above 0"),
        ({"batch": [2, 4, 8.5]}, "whole number above 0"),
        ({"batch": [2, 2, 2]}, "do not tell apart"),
        ({"batch": [2, 4, 4]}, "same point"),
        ({"batch": [2, 4, 8], "length": [16, 32, 64]}, "do not tell apart"),
    ],
)
def test_points_that_teach_nothing_are_refused(parameters, message):
    with pytest.raises(OptionError, match=message):
        pgmo.extrapolate([profile(2), profile(4), profile(8)], **parameters)


def test_a_recording_that_was_not_made_is_named():
    with pytest.raises(ProfileError, match="profile 1 is None"):
        pgmo.extrapolate([profile(2), None], batch=[2, 4])


@pytest.mark.parametrize("values", [{}, {"length": 3}, {"batch": 4, "length": 3}, {"batch": 0}])
def test_at_wants_exactly_its_parameters(guess, values):
    with pytest.raises(OptionError, match="batch"):
        guess.at(**values)
