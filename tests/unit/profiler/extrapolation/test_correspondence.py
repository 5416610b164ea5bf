"""Which profiles are taken for those of one program; the others are refused."""

import numpy as np
import pytest

from pgmo.errors import ProfileError
from pgmo.profiler.extrapolation.correspondence import correspond, extra_rows
from pgmo.profiler.profile import Profile, ProfileMeta
from pgmo.profiler.tag import Tag

NAMES = ["batch=2", "batch=4"]
POINTS = [(2,), (4,)]
CONV = Tag("Net.conv", "aten.convolution", "forward", "net.py:7 in forward")
RELU = Tag("Net.relu", "aten.relu", "forward", "net.py:8 in forward")
LINEAR = Tag("Net.head", "aten.addmm", "forward", "net.py:9 in forward")


def profile(sizes, tags=(), end=None, **more):
    count = len(sizes)
    distinct = tuple(dict.fromkeys(tags))
    more.setdefault("tag", [distinct.index(tag) for tag in tags] if tags else None)
    return Profile.from_columns(
        size=sizes,
        start=range(count),
        end=[at + 1 for at in range(count)] if end is None else end,
        ticks=count,
        tags=distinct,
        **more,
    )


def pairs_of(one, two):
    """The pairs of the second profile with the first one."""
    return correspond([one, two], POINTS, NAMES)[0]


def test_the_same_operators_correspond_whatever_their_sizes():
    pairs = pairs_of(
        profile([8, 4, 2], [CONV, RELU, LINEAR]), profile([80, 1, 2], [CONV, RELU, LINEAR])
    )
    assert pairs.row.tolist() == [0, 1, 2]


def test_the_first_other_operator_is_named_with_sizes_and_origins():
    one = profile([1024, 4, 2], [CONV, RELU, LINEAR])
    two = profile([2048, 2048, 4, 2], [CONV, CONV, RELU, LINEAR])
    with pytest.raises(ProfileError) as caught:
        pairs_of(one, two)
    message = str(caught.value)
    assert "batch=2 has 3 requests, batch=4 has 4" in message
    assert "14% of the requests of both, and 50% of the bytes" in message
    assert "request 1: 4 B (from Net.relu, aten.relu, net.py:8 in forward) at batch=2" in message
    assert "2.00 KiB (from Net.conv, aten.convolution, net.py:7 in forward) at batch=4" in message


@pytest.mark.parametrize(("more", "refused"), [(1, False), (16, True)])
def test_a_few_requests_more_are_optional(more, refused):
    one = profile([8, 4, 2] * 20, [CONV, RELU, LINEAR] * 20)
    sizes, tags = [16, 8, 2] * 20, [CONV, RELU, LINEAR] * 20
    for _ in range(more):
        sizes.insert(31, 3)
        tags.insert(31, CONV)
    two = profile(sizes, tags)
    if refused:
        with pytest.raises(ProfileError, match="do not align"):
            pairs_of(one, two)
    else:
        assert pairs_of(one, two).row.tolist() == [*range(31), -1, *range(31, 60)]


def test_one_request_with_much_of_the_bytes_is_enough_to_refuse():
    two = profile([8, 4, 2] * 20 + [200], [CONV, RELU, LINEAR] * 20 + [CONV])
    with pytest.raises(
        ProfileError, match=r"42% of the bytes.* request 60: none at batch=2, 200 B"
    ):
        pairs_of(profile([8, 4, 2] * 20, [CONV, RELU, LINEAR] * 20), two)


def test_what_the_largest_one_lacks_is_known():
    one = profile([8, 4, 2, 1] + [8, 4, 2] * 20, [CONV, RELU, LINEAR] + [CONV] * 61)
    two = profile([16, 8, 2] + [16, 8, 2] * 20, [CONV, RELU, LINEAR] + [CONV] * 60)
    assert np.flatnonzero(extra_rows(one, pairs_of(one, two))).tolist() == [3]


def test_as_many_requests_of_other_operators_are_refused():
    with pytest.raises(ProfileError, match=r"come from elsewhere; the first .* request 1"):
        pairs_of(profile([8, 4], [CONV, RELU]), profile([8, 4], [CONV, LINEAR]))


def test_without_origins_sizes_are_aligned():
    one = profile([64, 10, 64, 32, 10])
    two = profile([64, 20, 7, 7, 64, 32, 20])
    with pytest.raises(ProfileError, match=r"request [12]: .* unknown origin"):
        pairs_of(one, two)


def test_without_origins_lifetimes_tell():
    one, two = profile([8, 4, 2], end=[3, 2, 3]), profile([8, 4, 2], end=[1, 3, 4])
    with pytest.raises(ProfileError, match=r"3 live for another time; the first .* request 0"):
        pairs_of(one, two)


def test_one_that_goes_on_longer_is_refused_at_its_first_request_too_many():
    with pytest.raises(ProfileError, match="request 2: none at batch=2, 4 B"):
        pairs_of(profile([8, 4], [CONV] * 2), profile([8, 4, 4], [CONV] * 3))


def test_a_first_iteration_is_not_a_later_one():
    tags = [CONV, RELU, LINEAR] * 20
    later = profile([8, 4, 2] * 20, tags)
    ends = [*range(1, 61), *[-1] * 8]
    first = profile([16, 8, 2] * 20 + [2] * 8, [*tags, *[CONV] * 8], ends)
    with pytest.raises(ProfileError, match="8 that stay for good are in one of them only"):
        pairs_of(later, first)


def test_other_streams_do_not_correspond():
    with pytest.raises(ProfileError, match="request 1"):
        pairs_of(profile([8, 4]), profile([8, 4], stream=[0, 1]))


def test_profiles_of_two_devices_do_not_belong_together():
    there = profile([8], meta=ProfileMeta(device="cuda:0"))
    with pytest.raises(ProfileError, match="on cuda:0"):
        pairs_of(profile([8]), there)


def test_origins_that_were_confused_here_and_there_do_no_harm():
    tags = [CONV, RELU, LINEAR] * 10
    confused = [*tags[:-2], tags[-1], tags[-2]]
    assert pairs_of(profile([8] * 30, tags), profile([16] * 30, confused)).confused.sum() <= 2
