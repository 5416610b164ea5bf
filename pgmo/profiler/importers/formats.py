"""Import of a file, whose format is detected from its content and suffix."""

import os
import re
from pathlib import Path

from pgmo.errors import FileError
from pgmo.profiler.importers.contents import contents
from pgmo.profiler.importers.csv_blocks import NEEDED as TABLE_COLUMNS
from pgmo.profiler.importers.csv_blocks import read_csv_blocks
from pgmo.profiler.importers.cupy_log import has_cupy_lines, read_cupy_log
from pgmo.profiler.importers.imported import Imported
from pgmo.profiler.importers.rmm_log import NEEDED as RMM_COLUMNS
from pgmo.profiler.importers.rmm_log import read_rmm_log
from pgmo.profiler.importers.torch_memory.snapshot import read_torch_snapshot

_BEGINNING = 65536  # Bytes from which the format is detected.
_PICKLES = (".pickle", ".pkl")
_KNOWN = (
    "a PyTorch memory snapshot (pickle), the lines of CuPy's DebugPrintHook, an RMM log (CSV) or a "
    "table id,lower,upper,size (CSV)"
)
_PPROF = re.compile(rb"\n[\x02-\x16]\x08")  # A message of 2 to 22 bytes: pprof's `sample_type`.


def read_file(path: str | os.PathLike[str], device: int | None = None) -> list[Imported]:
    """Read a file of any known format, perhaps compressed, with one result per device.

    Raises:
        FileError: when the file cannot be read, is damaged, of unknown format or lacks `device`.
    """
    path = Path(path)
    beginning = contents(path, _BEGINNING)
    if not beginning:
        raise FileError(f"{path}: is empty; save it again")
    if beginning[:1] == b"\x80" or path.suffix.lower() in _PICKLES:
        return read_torch_snapshot(path, device)
    if _PPROF.match(beginning):
        raise FileError(
            f"{path}: begins like a profile in pprof's format, as JAX writes, which pgmo no longer "
            "imports; open the file with pprof"
        )
    if beginning[:2] == b"PK":
        raise FileError(
            f"{path}: begins like a zip archive: a profile of pgmo needs no import, and a file of "
            f"torch.save is no memory snapshot; give {_KNOWN}"
        )
    return _read_text(path, beginning.decode("utf-8-sig", "replace"), device)


def _read_text(path: Path, beginning: str, device: int | None) -> list[Imported]:
    if has_cupy_lines(beginning):
        return read_cupy_log(path, device)
    if beginning.lstrip()[:1] in ("{", "["):
        raise FileError(
            f"{path}: begins like JSON, such as a Chrome trace, which pgmo cannot import; record a "
            "memory snapshot with torch.cuda.memory._record_memory_history() and _dump_snapshot()"
        )
    header = [name.strip() for name in beginning.split("\n", 1)[0].split(",")]
    if all(name in header for name in RMM_COLUMNS):
        return read_rmm_log(path, device)
    if path.suffix.lower() == ".csv" or all(name in header for name in TABLE_COLUMNS):
        return [read_csv_blocks(path)]
    raise FileError(
        f"{path}: has an unknown format, it begins with {beginning[:40]!r}; give {_KNOWN}"
    )
