"""Messages of the tools around plans, word by word: what happened, the numbers, what to do next."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import pgmo
from pgmo.cli.completion import completion_script
from pgmo.cli.source import read_profile_or_plan
from pgmo.doctor.machine import settings_in_the_way, short_of_memory
from pgmo.packing.audit import audit


def profile(**changes):
    columns = {"size": [64, 128], "start": [0, 1], "end": [2, 2], "ticks": 2, **changes}
    return pgmo.Profile.from_columns(**columns)


def failure(plan, *arguments):
    (check,) = (check for check in audit(plan, *arguments) if not check.passed)
    return check.detail


PLAN = pgmo.plan(profile())

TOLD = {
    "load": (
        lambda: failure(replace(PLAN, max_load=128)),
        "the plan says 128 B (128 bytes), its blocks have 192 B (192 bytes); make the plan again "
        "from its profile",
    ),
    "bound": (
        lambda: failure(replace(PLAN, bound=193)),
        "no plan shall be below 193 B (193 bytes), which is not between the max load of 192 B "
        "(192 bytes) and the arena of 192 B (192 bytes); make the plan again from its profile",
    ),
    "proof": (
        lambda: failure(replace(PLAN, optimal=False)),
        "the plan is called not optimal, with an arena of 192 B (192 bytes) and a bound of 192 B "
        "(192 bytes); make the plan again from its profile",
    ),
    "fingerprint": (
        lambda: failure(replace(PLAN, size=np.array([64, 127]))),
        f"the plan says {PLAN.fingerprint[:12]}, its blocks have "
        f"{profile(size=[64, 127]).fingerprint[:12]}; it was changed after it was made: make it "
        "again from its profile",
    ),
    "profile": (
        lambda: failure(PLAN, profile(size=[64, 100])),
        "row 1: size is 128 in the plan, 100 in the profile; it was made from another profile: "
        "make it again from this one",
    ),
    "little memory": (
        lambda: next(short_of_memory(100 << 20)).what,
        "100 MiB of memory are available; compiling an adapter may need up to 512 MiB",
    ),
    "hidden GPUs": (
        lambda: next(settings_in_the_way({"CUDA_VISIBLE_DEVICES": "-1"})).what,
        "CUDA_VISIBLE_DEVICES is '-1', which hides every GPU",
    ),
}

RAISED = {
    "file": (
        lambda: read_profile_or_plan(Path("gpt.pickle")),
        "gpt.pickle: cannot be read (No such file or directory); check the path",
    ),
}


@pytest.mark.parametrize("name", TOLD)
def test_what_is_told(name):
    say, expected = TOLD[name]
    assert say() == expected


@pytest.mark.parametrize("name", RAISED)
def test_what_is_raised(name):
    do, expected = RAISED[name]
    with pytest.raises(pgmo.PgmoError) as raised:
        do()
    assert str(raised.value) == expected


def test_an_unknown_shell():
    shtab = pytest.importorskip("shtab")
    with pytest.raises(pgmo.PgmoError) as raised:
        completion_script("cmd.exe")
    assert str(raised.value) == (
        f"shtab {shtab.__version__} makes no completion script for 'cmd.exe'; choose one of "
        f"{', '.join(shtab.SUPPORTED_SHELLS)}"
    )
