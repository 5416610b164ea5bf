"""DistributedDataParallel around a model that recomputes has the bits of the plain one."""

import pytest

pytest.importorskip("torch")

from tests.integration.ranks.launch import launch, printed


@pytest.mark.parametrize("kind", ["plain", "static", "breaks", "sharded"])
def test_two_ranks(tmp_path, kind):
    ended = launch(tmp_path, "tests.integration.ranks.recomputed", kind)
    assert printed(ended) == [True, True]
