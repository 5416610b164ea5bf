"""Runs the script, and writes what came of it into the result file."""

import atexit
import json
import os
import sys
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pgmo.imports import after_import
from pgmo.rehearsal.child import memory
from pgmo.rehearsal.child.iterations import Counted, Stopped
from pgmo.rehearsal.child.scene import Scene
from pgmo.runner.early_pages import serve_from_the_start
from pgmo.runner.out_of_memory import is_out_of_memory
from pgmo.runner.program import Program
from pgmo.runner.supervision import RunOptions, Supervision
from pgmo.runner.watcher import Watcher


@dataclass
class Result:
    """What is known so far, and where it goes."""

    path: Path
    fields: dict[str, Any] = field(default_factory=dict)

    def write(self) -> None:
        """Writes it in one step."""
        partial = self.path.with_suffix(".partial")
        partial.write_text(json.dumps(self.fields))
        os.replace(partial, self.path)


def main(spec_path: str) -> int:
    """Rehearses what the spec says; returns the script's exit code."""
    spec = json.loads(Path(spec_path).read_text())
    module = spec["command"][0] == "-m"
    target, *arguments = spec["command"][1:] if module else spec["command"]
    program = Program(target, module, tuple(arguments))
    result = Result(Path(spec["result"]))
    process = os.getpid()
    supervision = None
    if spec["way"] == "pgmo":
        options = RunOptions(program.name, plan=spec["plan"], save=spec["save"], start=Path.cwd())
        supervision = Supervision(options)
        serve_from_the_start(supervision.notes.append)
    scene = Scene(spec)
    scene.set()
    counted = Counted(supervision, spec["iterations"])
    after_import("torch.optim.optimizer", Watcher(counted).attach)  # type: ignore[arg-type]

    def ending(code: int, error: BaseException | None) -> None:
        if os.getpid() != process:
            return
        notes = [*counted.notes, *scene.notes()]
        if isinstance(error, Stopped):
            notes.append(f"stopped after {counted.ended} iterations: what comes later was not run")
            code, error = 0, None
        fields: dict[str, Any] = {"exit_code": code, "rank": spec["rank"], "notes": notes}
        fields |= {"iterations": counted.ended or None} | memory.counted()
        if is_out_of_memory(error):
            assert error is not None
            fields["out_of_memory"] = f"{error}\n{memory.line_that_asked(error)}"
        elif error is not None:
            fields["error"] = "".join(traceback.format_exception(error))[-4000:]
        if supervision is not None:
            supervision.close()
            notes += supervision.notes
            for one in supervision.saved:
                kind = {".pgmoprof": "profile", ".pgmoplan": "plan"}.get(one.suffix)
                if kind is not None:
                    fields[kind] = str(one)
        result.fields = fields
        result.write()

    # For scripts that are ended from another thread, or by a handler.
    atexit.register(lambda: None if result.fields else ending(0, None))
    program.check()
    done = program.run(None)
    ending(done.code, done.error)
    if not isinstance(done.error, Stopped):
        done.show()
    sys.stdout.flush()
    return 0 if isinstance(done.error, Stopped) else done.code
