import json
from dataclasses import asdict

import pytest

from pgmo.demo.job import Outcome, PlanOutcome, TrainingJob
from pgmo.demo.lengths import LONGEST_AT

PLANNED = PlanOutcome(3, 100, 110, 0.1, "best_fit", 1, ("record", "replay"), 0.5, None, "text")
OUTCOME = Outcome((0.1, 0.2), ("0x1p+0", "0x1p-1"), "ab", 9, None, (7, 8), 2, "2.13")


def test_a_job_survives_its_way_to_the_worker():
    job = TrainingJob("gpt", "pgmo", 12, 3, "varying", plan="a b.pgmoplan", save_as="é", threads=2)
    assert TrainingJob.from_json(job.to_json()) == job


@pytest.mark.parametrize("planned", [None, PLANNED])
def test_an_outcome_survives_its_way_back(planned):
    outcome = Outcome(**{**asdict(OUTCOME), "planned": planned})
    assert Outcome.from_fields(json.loads(json.dumps(asdict(outcome)))) == outcome


def test_the_steady_part_begins_after_the_longest_length():
    assert TrainingJob("gpt", "pgmo", lengths="varying").steady_from > LONGEST_AT
