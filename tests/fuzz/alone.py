"""Trial of an input in a child process, which may hang, be killed, or exhaust the memory."""

import os
import resource
import signal
import tempfile
import traceback
from pathlib import Path

from tests.fuzz.inputs import Input
from tests.fuzz.trial import Trial
from tests.fuzz.worker import HANGS_AFTER, limit_memory


def outcome_of(data: bytes, suffix: str) -> str:
    """Return the outcome of a file: "read", "refused" with the message, or an error.

    Args:
        data: bytes of the file.
        suffix: suffix of the file's name, from which its kind follows.
    """
    kind = {".pgmoprof": "profile", ".pgmoplan": "plan"}.get(suffix, "file")
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        _child(writer, Input(0, kind, suffix, data))
    os.close(writer)
    with open(reader, "rb") as stream:
        said = stream.read().decode()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"ended by {signal.Signals(os.WTERMSIG(status)).name}"
    return said


def _child(writer: int, given: Input) -> None:
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(HANGS_AFTER)
        limit_memory()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with tempfile.TemporaryDirectory() as folder:
            trial = Trial(Path(folder))
            said = " ".join([trial.run(given), trial.said]).strip()
    except BaseException as error:
        said = "failed: " + "".join(traceback.format_exception(error)[-3:])
    try:
        os.write(writer, said.encode(errors="backslashreplace")[:4000])
    finally:
        os._exit(0)
