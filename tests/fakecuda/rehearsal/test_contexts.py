"""`pgmo doctor` measures the size of a context, and rehearsals on this machine use it."""

import json
import os

from pgmo.rehearsal.contexts import measured_contexts
from tests import forked

MIB = 1 << 20


def test_the_doctor_measures_a_context_apart_from_tensors(tmp_path, monkeypatch):
    monkeypatch.setenv("PGMO_CACHE_DIR", str(tmp_path / "cache"))
    settings = {
        "FAKECUDA_SHARED": str(tmp_path / "card"),
        "FAKECUDA_CONTEXT": str(333 * MIB),
        "FAKECUDA_NAME": "NVIDIA H200",
        "FAKECUDA_DEVICES": "1",
    }
    command = ("-m", "pgmo", "doctor", "--json")
    ended = forked.run_command(tmp_path, *command, environment=os.environ | settings)
    (device,) = json.loads(ended.output)["frameworks"]["devices"]
    assert device["context"] == 333 * MIB
    assert measured_contexts() == {"NVIDIA H200": 333 * MIB, "H200": 333 * MIB}
