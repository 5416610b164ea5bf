import pytest

from pgmo.archive import write
from tests.unit.archive.saved_archive import COLUMNS, VERSION


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("archive") / "a.pgmoprof"
    write(path, "pgmoprof", VERSION, COLUMNS, {"ticks": 3})
    return path
