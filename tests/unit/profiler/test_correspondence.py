"""Profiles whose requests do not correspond are refused, with the first difference."""

import pytest

from pgmo.errors import ProfileError
from pgmo.profiler.correspondence import check_correspondence
from pgmo.profiler.profile import Profile, ProfileMeta
from pgmo.profiler.tag import Tag

NAMES = ["batch=2", "batch=4"]
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


def test_the_same_operators_correspond_whatever_their_sizes():
    check_correspondence(
        [profile([8, 4, 2], [CONV, RELU, LINEAR]), profile([80, 1, 2], [CONV, RELU, LINEAR])], NAMES
    )


def test_the_first_other_operator_is_named_with_sizes_and_origins():
    one = profile([1024, 4, 2], [CONV, RELU, LINEAR])
    two = profile([2048, 2048, 4, 2], [CONV, CONV, RELU, LINEAR])
    with pytest.raises(ProfileError) as caught:
        check_correspondence([one, two], NAMES)
    message = str(caught.value)
    assert "batch=2 has 3 requests, batch=4 has 4" in message
    assert "request 1: 4 B (from Net.relu, aten.relu, net.py:8 in forward) at batch=2" in message
    assert "2.00 KiB (from Net.conv, aten.convolution, net.py:7 in forward) at batch=4" in message


def test_as_many_requests_of_other_operators_are_refused():
    with pytest.raises(ProfileError, match="request 1"):
        check_correspondence(
            [profile([8, 4], [CONV, RELU]), profile([8, 4], [CONV, LINEAR])], NAMES
        )


def test_without_origins_sizes_are_aligned():
    one = profile([64, 10, 64, 32, 10])
    two = profile([64, 20, 7, 64, 32, 20])
    with pytest.raises(ProfileError, match=r"request [12]: .* unknown origin"):
        check_correspondence([one, two], NAMES)


def test_without_origins_lifetimes_tell():
    one, two = profile([8, 4, 2], end=[3, 2, 3]), profile([8, 4, 2], end=[1, 3, 4])
    with pytest.raises(ProfileError, match="request 0"):
        check_correspondence([one, two], NAMES)


def test_one_that_goes_on_longer_is_refused_at_its_first_request_too_many():
    with pytest.raises(ProfileError, match="request 2: none at batch=2, 4 B"):
        check_correspondence([profile([8, 4], [CONV] * 2), profile([8, 4, 4], [CONV] * 3)], NAMES)


def test_other_streams_do_not_correspond():
    with pytest.raises(ProfileError, match="request 1"):
        check_correspondence([profile([8, 4]), profile([8, 4], stream=[0, 1])], NAMES)


def test_profiles_of_two_devices_do_not_belong_together():
    there = profile([8], meta=ProfileMeta(device="cuda:0"))
    with pytest.raises(ProfileError, match="on cuda:0"):
        check_correspondence([profile([8]), there], NAMES)


def test_origins_that_were_confused_here_and_there_do_no_harm():
    tags = [CONV, RELU, LINEAR] * 10
    confused = [*tags[:-2], tags[-1], tags[-2]]
    check_correspondence([profile([8] * 30, tags), profile([9] * 30, confused)], NAMES)


def test_another_origin_and_lifetime_is_another_request():
    tags = [CONV, RELU, LINEAR] * 10
    ends = [at + 1 for at in range(30)]
    ends[28] += 3
    with pytest.raises(ProfileError, match="request 28"):
        check_correspondence(
            [profile([8] * 30, tags), profile([9] * 30, [*tags[:-2], CONV, LINEAR], ends)], NAMES
        )
