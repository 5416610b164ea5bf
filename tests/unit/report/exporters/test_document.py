import io
import json

import numpy as np

from pgmo.packing.planner import plan
from pgmo.profiler.profile import Profile
from pgmo.profiler.tag import Tag
from pgmo.report.exporters.document import write_document
from tests.unit.profiler.examples import small_profile


def document(source):
    out = io.StringIO()
    write_document(source, out)
    return json.loads(out.getvalue())


def test_a_profile_can_be_made_again_from_its_document():
    profile = small_profile()
    read = document(profile)
    blocks = read["blocks"]
    again = Profile.from_columns(
        size=[block["size"] for block in blocks],
        start=[block["start"] for block in blocks],
        end=[-1 if block["end"] is None else block["end"] for block in blocks],
        stream=np.array([block["stream"] for block in blocks], np.uint64),
        varying=[block["varying"] for block in blocks],
        ticks=read["ticks"],
        circular=read["circular"],
    )
    assert again.fingerprint == read["fingerprint"] == profile.fingerprint
    assert read["meta"]["notes"] == {"a": "ü"}
    assert read["max_load"] == profile.max_load()


def test_tags_have_their_stacks():
    tags = (Tag("Net", "aten.mm", "forward", "a.py:3 in f", ("a.py:3 in f", "b.py:9 in g")),)
    read = document(
        Profile.from_columns(size=[1, 2], start=[0, 0], end=[1, 1], ticks=1, tag=[0, -1], tags=tags)
    )
    first, second = read["blocks"]
    assert read["tags"][first["tag"]]["stack"] == ["a.py:3 in f", "b.py:9 in g"]
    assert second["tag"] is None


def test_a_plan_has_what_is_proved_about_it():
    made = plan(small_profile())
    read = document(made)
    told = {key: read[key] for key in ("arena", "max_load", "bound", "optimal", "solver")}
    assert told == {key: getattr(made, key) for key in told}
    placed = [block for block in read["blocks"] if block["offset"] is not None]
    assert max(block["offset"] + block["size"] for block in placed) <= made.arena


def test_no_blocks_at_all():
    assert document(Profile.from_columns(size=[], start=[], end=[], ticks=0))["blocks"] == []
