"""Recording of tests and their parts, and the files of their profiles."""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pgmo.allocator.one_pass import OnePass, record_once
from pgmo.profiler.profile import Profile

_ODD = re.compile(r"[^\w\[\]=+,-]")
_LONGEST = 200
"""Maximum bytes of a file name, below 255 because of suffixes. Longer names are cut."""


class Recordings:
    """Value of the fixture `pgmo_profile`. Calls return context managers that record memory."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        self._names: set[str] = set()

    @contextmanager
    def __call__(self, name: str = "", *, device: object = None) -> Iterator[OnePass]:
        """Record the requests inside the block.

        Args:
            name: name of the part, if a test records several.
            device: "cpu", "cuda", "cuda:1"; default as in `pgmo.optimize`.

        Raises:
            SessionError: if a session of pgmo is open on the device, or is opened inside.
            AdapterError: if PyTorch's memory on the device cannot be recorded.
            ValueError: if the test has already recorded a part of this name.
        """
        if name in self._names:
            raise ValueError(
                f"this test has already recorded {name!r}; give each part its own name"
            )
        self._names.add(name)
        with recorded(self._item, name, device) as made:
            yield made


@contextmanager
def recorded(item: pytest.Item, part: str = "", device: object = None) -> Iterator[OnePass]:
    """Record a test or a part of it; with `--pgmo-save`, save the profile in that folder."""
    name = profile_name(item, part)
    with record_once(device, name=name.rpartition("/")[2]) as made:
        yield made
    folder = item.config.getoption("--pgmo-save")
    if folder and made.profile is not None:
        path = _started_in(item.config, folder) / f"{name}.pgmoprof"
        path.parent.mkdir(parents=True, exist_ok=True)
        made.profile.save(path)


def base_profile(item: pytest.Item) -> tuple[Profile | None, str]:
    """Return the test's earlier profile, None if it does not exist; and its path, "" if unknown."""
    given = item.config.getoption("--pgmo-base")
    folder: Path | None = None
    if given:
        folder = _started_in(item.config, given)
    elif item.config.getini("pgmo_base"):
        folder = item.config.rootpath / item.config.getini("pgmo_base")
    if folder is None:
        return None, ""
    path = folder / f"{profile_name(item)}.pgmoprof"
    return (Profile.load(path) if path.is_file() else None), str(path)


def profile_name(item: pytest.Item, part: str = "") -> str:
    """Return the path of a test's profile below the folder of profiles, without the suffix.

    The path contains the path of the test's file, relative to the folder of the configuration file.
    Without a configuration file, it is relative to the folder in which pytest was started.
    """
    config = item.config
    below = config.rootpath if config.inipath else config.invocation_params.dir
    file, _, test = item.nodeid.partition("::")
    if item.path.is_relative_to(below):
        file = str(item.path.relative_to(below))
    return join_names(file, *test.split("::"), *([part] if part else []))


def join_names(file: str, *names: str) -> str:
    """Return a unique path for a test, from its file and the names inside it.

    Characters except letters, digits and `_[]=+,-` become `_`. A changed or cut name ends with a
    digest of the original name.

    Example:
        >>> join_names("tests/test_net.py", "TestStep", "test_it[cpu-2]", "backward")
        'tests/test_net/TestStep.test_it[cpu-2].backward'
        >>> join_names("tests/test_net.py", "test_it[cpu/2]")
        'tests/test_net/test_it[cpu_2]-f9cf44ec'
    """
    cleaned = [_ODD.sub("_", one) for one in names]
    name = ".".join(cleaned)
    if cleaned != list(names) or len(name.encode()) > _LONGEST:
        digest = hashlib.sha256("\0".join(names).encode(errors="replace")).hexdigest()[:8]
        name = f"{name.encode()[:_LONGEST].decode(errors='ignore')}-{digest}"
    return f"{Path(file).with_suffix('')}/{name}"


def _started_in(config: pytest.Config, folder: str) -> Path:
    return config.invocation_params.dir / folder
