"""Runs the script, then writes the result file."""

import atexit
import json
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pgmo.files.replacement import replace_file
from pgmo.imports import after_import
from pgmo.rehearsal.child import memory
from pgmo.rehearsal.child.iterations import IterationCounter, Stopped
from pgmo.rehearsal.child.obstacles import (
    advice,
    packages_with_kernels,
    reason_of,
    shortened,
)
from pgmo.rehearsal.child.script_setup import ScriptSetup
from pgmo.runner.early_pages import serve_from_the_start
from pgmo.runner.out_of_memory import is_out_of_memory
from pgmo.runner.program import Program
from pgmo.runner.supervision import RunOptions, Supervision
from pgmo.runner.watcher import Watcher

_SHOWN = 4000
"""Maximum number of characters of an error. The beginning (the cause) and the end are kept."""

_FILES = {".pgmoprof": "profile", ".pgmoplan": "plan"}


def main(spec_path: str) -> int:
    """Rehearse the script that a file specifies, and return its exit code."""
    run = ScriptRun(json.loads(Path(spec_path).read_text()))
    run.prepare()
    done = run.program.run(None)
    run.end(done.code, done.error)
    if isinstance(done.error, Stopped):
        code = 0
    else:
        done.show()
        code = done.code
    sys.stdout.flush()
    return code


class ScriptRun:
    """One run of a script."""

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self._spec = spec
        self.program = Program.of(spec["command"])
        self._setup = ScriptSetup(spec)
        self._supervision: Supervision | None = None
        if spec["way"] == "pgmo":
            options = RunOptions(
                self.program.name, plan=spec["plan"], save=spec["save"], start=Path.cwd()
            )
            self._supervision = Supervision(options)
        self._counter = IterationCounter(
            self._supervision, spec["iterations"], spec.get("longer", 0.0)
        )
        self._process = os.getpid()
        self._ended = False

    def prepare(self) -> None:
        """Adjust the process, and install the watcher and handlers for every kind of exit."""
        self._setup.install()
        if self._supervision is not None:
            serve_from_the_start(self._supervision.notes.append)
        watcher = Watcher(self._counter)  # type: ignore[arg-type]
        after_import("torch.optim.optimizer", watcher.attach)
        atexit.register(self.end, 0, None)
        leave = os._exit

        def end_first(code: int) -> None:
            self.end(code, None)
            leave(code)

        os._exit = end_first  # type: ignore[assignment]

    def end(self, code: int, error: BaseException | None) -> None:
        """Write the result. Several exit handlers call this method; only the first call writes."""
        if os.getpid() != self._process or self._ended:
            return
        self._ended = True
        counted = self._counter
        counted.close()
        notes = [*counted.notes, *self._setup.notes(), *self._kernel_notes()]
        if isinstance(error, Stopped):
            notes.append(f"stopped after {counted.ended} iterations; later iterations did not run")
            code, error = 0, None
        fields: dict[str, Any] = {
            "exit_code": code,
            "rank": self._spec["rank"],
            "iterations": counted.ended or None,
            **memory.counted(),
        }
        if is_out_of_memory(error):
            assert error is not None
            fields["out_of_memory"] = f"{error}\n{memory.requesting_line(error)}"
        elif caught := memory.count_out_of_memory():
            notes.insert(0, f"memory ran out {caught} times, and no such error ended the script")
        if error is not None and "out_of_memory" not in fields:
            text = "".join(traceback.format_exception(error))
            fields["error"] = shortened(text, _SHOWN)
            fields["reason"] = reason_of(error)
            known = advice(fields["reason"])
            if known is not None:
                notes.insert(0, f"the script probably cannot be rehearsed unchanged: {known}")
        if self._supervision is not None:
            self._supervision.close()
            notes += self._supervision.notes
            saved = {_FILES.get(one.suffix): str(one) for one in self._supervision.saved}
            fields |= {kind: path for kind, path in saved.items() if kind is not None}
        text = json.dumps(fields | {"notes": notes})
        replace_file(Path(self._spec["result"]), text.encode())

    def _kernel_notes(self) -> list[str]:
        names = packages_with_kernels()
        if not names:
            return []
        return [
            f"packages with CUDA kernels of their own: {', '.join(names)}; their memory outside of "
            "PyTorch's allocator, and sizes that these kernels compute, are unknown"
        ]
