"""Tests of the beginnings of iterations, as annotations and metadata mark them."""

import numpy as np
import pytest

from pgmo.profiler.importers.marks import find_marks

TIME = np.arange(10, 110, 10)


def annotation(name, stage, at, device=0):
    return {"name": name, "stage": stage, "device": device, "time_us": at}


def rows(*annotations):
    return find_marks(TIME, np.zeros(len(TIME), np.int32), [""], annotations, 0).rows


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


@pytest.mark.parametrize(
    ("notes", "expected"),
    [
        (["step 1", "step 2", "step 3"], (0, 2, 4)),
        (["epoch 0 step 8", "epoch 0 step 9", "epoch 1 step 0"], (0, 2, 4)),
        (["step 1", "evaluation", "step 2"], (0, 4)),
        (["step 1", "step 5", "step 2"], ()),
        (["first", "second", "third"], ()),
        (["step 1", "step 1", "step 1"], ()),
    ],
)
def test_metadata_with_numbers_that_go_up(notes, expected):
    note = np.array([0, 0, 1, 1, 2, 2], np.int32)
    assert find_marks(np.arange(6), note, notes, [], 0).rows == expected
