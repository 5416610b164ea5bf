from pgmo.profiler.profile import Profile
from pgmo.report.findings.streams import StreamUse, stream_use


def test_each_stream_has_its_own_load_and_shared_blocks_are_counted_apart():
    profile = Profile.from_columns(
        size=[100, 30, 40, 7],
        start=[0, 1, 2, 3],
        end=[1, 3, 4, 4],
        stream=[0, 5, 5, 5],
        shared=[False, False, False, True],
        ticks=4,
    )
    assert stream_use(profile) == (
        StreamUse(0, requests=1, size=100, max_load=100, shared=0, shared_size=0),
        StreamUse(5, requests=3, size=77, max_load=70, shared=1, shared_size=7),
    )
    assert profile.max_load() == 100


def test_one_stream_has_the_whole_load():
    profile = Profile.from_columns(size=[4, 2], start=[0, 1], end=[1, 5], ticks=2)
    (use,) = stream_use(profile)
    assert use.max_load == profile.max_load()
