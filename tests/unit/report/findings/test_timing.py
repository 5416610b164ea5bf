from dataclasses import replace

import numpy as np

from pgmo.report.findings.timing import time_by
from tests.unit.report.loops import train


def test_all_time_is_given_to_some_request():
    trace = train(5)
    for by in ("op", "phase", "module", "file"):
        spent = time_by(trace, by)
        assert sum(one.requests for one in spent) == trace.requests
        assert (
            sum(one.microseconds for one in spent) == trace.time[-1] - trace.time[trace.before + 1]
        )
        times = [one.microseconds for one in spent]
        assert times == sorted(times, reverse=True)
    assert {one.name for one in time_by(trace, "phase")} == {
        *("forward", "backward", "optimizer", "(untagged)"),
    }


def test_a_trace_without_times_says_nothing():
    trace = train(5)
    assert time_by(replace(trace, time=np.zeros(len(trace), np.int64))) == ()


def test_the_list_is_cut_to_the_longest():
    trace = train(5)
    assert time_by(trace, top=1) == time_by(trace)[:1]
