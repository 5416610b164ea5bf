"""Tests that DistributedDataParallel around a recomputing model has the plain model's bits."""

import pytest

pytest.importorskip("torch")

from tests.integration.ranks.launch import launch, printed

KINDS = ("plain", "static", "breaks", "sharded")


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    folder = tmp_path_factory.mktemp("two")
    return printed(launch(folder, "tests.integration.ranks.recomputed", *KINDS))


@pytest.mark.parametrize("kind", KINDS)
def test_two_ranks(two, kind):
    assert [rank[kind] for rank in two] == [True, True]
