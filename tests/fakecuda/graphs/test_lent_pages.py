"""Pages with only temporaries of graphs serve other requests between replays."""

from tests.fakecuda.graphs.test_shared_pages import graphs

CARD = 160 << 20
"""Bytes of the card: a graph (64 MiB), its input (32 MiB), and half of the later requests fit."""

LENT = """
one = captured(32)
replayed(*one, 3)
large = block(80)
lent = figures()["lent"]
try:
    replayed(*one, 4)
    fitted = True
except torch.OutOfMemoryError as error:
    fitted = str(error)
kept = right(one[2], 3)
del large
replayed(*one, 5)
report(lent, fitted, kept, right(one[2], 5))
"""


def test_a_request_that_would_fail_gets_the_pages_until_the_next_replay():
    lent, fitted, kept, after = graphs(LENT, FAKECUDA_BYTES=str(CARD))
    assert lent == 16
    assert "this graph needs its lent pages back" in fitted
    assert kept
    assert after


def test_nothing_is_lent_while_there_is_memory():
    lent, fitted, _, after = graphs(LENT)
    assert (lent, fitted, after) == (0, True, True)


def test_a_pool_gets_the_pages_too():
    (lent, served) = graphs(
        """
one = captured(32)
replayed(*one, 3)
with torch.cuda.use_mem_pool(torch.cuda.MemPool()):
    large = block(80)
report(figures()["lent"], large.numel() >> 20)
""",
        FAKECUDA_BYTES=str(CARD),
    )
    assert (lent, served) == (16, 80)


def test_a_capture_into_a_pool_whose_pages_are_lent_gets_them_back():
    seen = graphs(
        """
one = captured(32)
replayed(*one, 3)
large = block(80)
del large
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph, pool=one[0].pool()):
    second = copied(copied(one[1]))
graph.replay()
report(figures()["lent"], right(second, 3))
""",
        FAKECUDA_BYTES=str(CARD),
    )
    assert seen == [16, True]
