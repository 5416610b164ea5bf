"""Observer of a script's iterations, which records their memory.

step 1          2          3                      5           6              7 ...
     |----------|----------|-- history, census    |-- profile |-- arithmetic |-- live memory
"""

import json
import os
import pickle
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pgmo.fit.observer.changes import ScriptChange
from pgmo.fit.observer.levels import Levels, peak_of_live, reset_peaks
from pgmo.fit.observer.longest import LongestSamples
from pgmo.fit.observer.planned_steps import planned_steps
from pgmo.fit.observer.sites import SitesRun
from pgmo.imports import after_import
from pgmo.rehearsal.child.memory import count_out_of_memory

HISTORY = 3
"""Number of steps in the history: one step creates optimizer states, and two steps repeat."""

PROFILED = HISTORY + 2
"""Step after which a session has a profile: a session records three iterations, then plans."""

_WRITES = 0.5
"""Minimum seconds between two writes of the evidence, once only live memory is observed. If a new
evaluation or checkpoint has run, the evidence is written at once."""

ENTRIES = 4_000_000
"""Maximum number of events in torch's memory history. Beyond it, torch drops the oldest events."""


class Watch:
    """Observer that is attached to a script's optimizers.

    Args:
        spec: `evidence`: JSON file of the record, rewritten as it grows.
            `snapshot`: file for the memory history of the first steps.
            `steady`: file for the profile of a pgmo session.
            `change`: text for `ScriptChange`, or None. `work`: whether to count arithmetic.
        script: file of the script, whose evaluations and checkpoints are recorded; None if unknown.
    """

    def __init__(self, spec: Mapping[str, Any], script: Path | None = None) -> None:
        self._evidence, self._snapshot = Path(spec["evidence"]), Path(spec["snapshot"])
        self._steady = Path(spec["steady"])
        change = spec.get("change")
        self._change = ScriptChange(change) if change else None
        self._first: int | None = None  # the optimizer whose steps count
        self._steps = 0
        self._calls = 0  # steps of all optimizers; each has a mark in the history
        self._marked: list[dict[str, Any]] = []
        self._ended: list[int] = []  # for each counted step, the number of its mark
        self._known: dict[str, Any] = {}
        self._counts_work = bool(spec["work"])
        self._work: Any = None
        self._levels = Levels()
        self._written = (0.0, 0)  # time of the last write, and `SitesRun.ran` at that time
        self._process = os.getpid()
        self._sites = SitesRun(script) if script is not None else None
        self._longest = LongestSamples()

    def hook_libraries(self) -> None:
        """Hook libraries that import torch, before the script imports one of them.

        `attach` would be too late: it runs when a library that imports torch is half imported.
        """
        self._longest.attach()
        if self._sites is not None:
            self._sites.hook_trainers()

    def attach(self) -> None:
        """Hook the optimizers and the start of CUDA, once torch's optimizers are imported."""
        import torch
        from torch.optim.optimizer import (
            register_optimizer_step_post_hook,
            register_optimizer_step_pre_hook,
        )

        # Before CUDA starts, the script may choose its devices.
        after_import("torch.cuda", lambda: torch.cuda._lazy_call(self._record))  # type: ignore[no-untyped-call]
        register_optimizer_step_pre_hook(self._before)
        register_optimizer_step_post_hook(self._after)
        # The rest of torch is still being imported.
        if self._change is not None:
            after_import("torch.optim", self._change.attach)
        if self._sites is not None:
            after_import("torch.optim", self._sites.attach)

    def _record(self) -> None:
        import torch

        torch.cuda.memory._record_memory_history(
            enabled="all", context=None, stacks="python", max_entries=ENTRIES
        )

    def _before(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        """Record the addresses of gradients before a step, when all of them exist."""
        from pgmo.fit.observer.census import gradients

        if os.getpid() == self._process and self._steps < HISTORY:
            self._marked.append({"mark": self._calls, "gradients": gradients(optimizer)})

    def _after(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        """Count a finished step; the history gets its mark right afterwards."""
        if os.getpid() != self._process:
            return
        self._calls += 1
        if self._first is None:
            self._first = id(optimizer)
        if id(optimizer) != self._first:
            return
        self._steps += 1
        self._ended.append(self._calls - 1)
        self._levels.add(optimizer)
        if self._levels.replaced and self._sites is not None:
            self._sites.has_replaced = True
        if self._steps <= HISTORY:
            self._write_history(optimizer)
        if self._steps == PROFILED:
            self._keep_profile()
            if self._known.get("planned") is None and self._sites is not None:
                frame = sys._getframe()
                self._known["planned"] = planned_steps(frame, self._sites.own_path, self._steps)
            if self._counts_work:  # after a session has recorded: counting changes the requests
                self._start_work()
        elif self._steps == PROFILED + 1:
            self._end_work()
        elif self._steps > PROFILED + 1:
            self._known["later_peak"] = peak_of_live()
        if self._steps >= PROFILED and self._is_due():
            self._write()

    def _write_history(self, optimizer: Any) -> None:
        import torch

        from pgmo.fit.observer.census import census

        # An optimizer on the CPU may initialize CUDA, as Adam does in PyTorch 2.14.
        if not peak_of_live():
            self._known["where"] = "cpu"
            self._write()
            return
        self._known |= census(optimizer)
        self._known |= {"marked": self._marked, "ended": self._ended}
        if self._steps == HISTORY or self._steps == 1:
            self._known |= {"convolutions": _convolutions(), "ran_out": count_out_of_memory()}
            self._snapshot.write_bytes(pickle.dumps(torch.cuda.memory._snapshot()))
        if self._steps == HISTORY:
            torch.cuda.memory._record_memory_history(enabled=None)
        if self._steps in (1, HISTORY):
            self._known["history"] = self._steps
            self._write()

    def _keep_profile(self) -> None:
        """Save the profile with the most blocks of the pgmo sessions on cards, if there is one."""
        from pgmo.allocator.session.open_sessions import open_profiles

        found = [one for one in open_profiles() if one.meta.device.startswith("cuda")]
        if found:
            max(found, key=len).save(self._steady)

    def _start_work(self) -> None:
        from pgmo.fit.observer.work import Work

        self._work = Work()
        self._work.begin()

    def _end_work(self) -> None:
        """Stop counting arithmetic, and reset the peaks, because counting may take memory."""
        if self._work is not None:
            self._known["work"] = self._work.end()
            self._work = None
        self._known["early_peak"] = peak_of_live()
        reset_peaks()

    def _is_due(self) -> bool:
        """Return whether to write: always at first, later at intervals or when new code has run."""
        written, ran = self._written
        new = self._sites is not None and self._sites.ran != ran
        return self._steps <= PROFILED + 2 or new or time.monotonic() - written > _WRITES

    def _write(self) -> None:
        if self._sites is not None:
            self._known["missed"] = self._sites.missed()
            self._written = time.monotonic(), self._sites.ran
        self._known["notes"] = self._longest.notes
        self._known["levels"] = {"live": self._levels.live, "elements": self._levels.elements}
        partial = self._evidence.with_suffix(".partial")
        partial.write_text(json.dumps(self._known))
        os.replace(partial, self._evidence)


def _convolutions() -> list[tuple[int, int, int]]:
    """Return address, bytes and convolution of each used workspace; [] without the stub runtime."""
    if "PGMO_FAKECUDA" not in os.environ:
        return []
    from pgmo.rehearsal.control import convolution_workspaces

    return convolution_workspaces()
