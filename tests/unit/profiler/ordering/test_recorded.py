"""Tests of the order of one iteration, in which frees keep the numbers of requests."""

from types import SimpleNamespace

import numpy as np

from pgmo.profiler.ordering.order import FREE, RECORD, WAIT
from pgmo.profiler.ordering.recorded import order_of

ROWS = np.dtype([("kind", "i8"), ("target", "i8"), ("tick", "i8"), ("stream", "i8")])


class Iteration(SimpleNamespace):
    """An iteration of `requests` requests, with the rows between them."""

    def __len__(self):
        return self.requests


def test_an_iteration_may_have_more_requests_than_rows():
    rows = np.array([(RECORD, 7, 1, 0), (WAIT, 7, 2, 1), (FREE, 53, 3, 0)], ROWS)
    one = Iteration(requests=60, first=0, rows=rows, stream=np.array([0, 1] * 30))
    order = order_of([one], 0)
    assert order.target[1:].tolist() == [0, 53]
