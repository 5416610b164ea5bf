"""Tests of the beginnings of iterations, as annotations mark them."""

import numpy as np

from pgmo.profiler.importers.marks import find_marks

TIME = np.arange(10, 110, 10)


def annotation(name, stage, at, device=0):
    return {"name": name, "stage": stage, "device": device, "time_us": at}


def rows(*annotations):
    return find_marks(TIME, annotations, 0).rows


def test_the_end_of_an_optimizer_step_begins_the_next_iteration():
    reported = [annotation("Optimizer.step#SGD.step", stage, 50) for stage in ("START", "END")]
    assert rows(*reported) == (5,)


def test_of_several_optimizers_the_one_that_steps_least_counts():
    often = [annotation("Optimizer.step#Adam.step", "END", at) for at in (20, 40, 60, 80)]
    seldom = [annotation("Optimizer.step#SGD.step", "END", at) for at in (45, 85)]
    assert rows(*often, *seldom) == (4, 8)


def test_other_devices_and_what_was_before_do_not_count():
    name = "Optimizer.step#SGD.step"
    assert rows(annotation(name, "END", 50, device=1), annotation(name, "END", 5)) == ()
