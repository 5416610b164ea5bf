"""Tests of the variables that a rehearsal sets."""

import pytest

from pgmo.rehearsal.environment import of_rank


def test_a_single_process_gets_no_variables_of_ranks():
    assert of_rank(0, 1, 8) == {}


@pytest.mark.parametrize(
    ("rank", "local", "node", "nodes"),
    [(3, "3", "0", "2"), (8, "0", "1", "2"), (15, "7", "1", "2")],
)
def test_ranks_fill_the_cards_of_one_node_after_another(rank, local, node, nodes):
    found = of_rank(rank, 16, 8)
    assert (found["RANK"], found["WORLD_SIZE"]) == (str(rank), "16")
    assert (found["LOCAL_RANK"], found["LOCAL_WORLD_SIZE"]) == (local, "8")
    assert (found["GROUP_RANK"], found["GROUP_WORLD_SIZE"]) == (node, nodes)
