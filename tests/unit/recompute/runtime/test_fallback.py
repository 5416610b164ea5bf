import copy

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from pgmo.errors import GraphError, OptionError  # noqa: E402
from pgmo.recompute.capture.taking.meter import meter  # noqa: E402
from pgmo.recompute.runtime.without_graph.fallback import segments  # noqa: E402


def network():
    torch.manual_seed(0)
    layers = []
    for _ in range(6):
        layers += [nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Dropout(0.2)]
    return nn.Sequential(*layers)


def trained(model):
    torch.manual_seed(1)
    images = torch.randn(2, 4, 24, 24)
    with meter(torch.device("cpu")) as measured:
        for _ in range(2):
            loss = model(images).square().mean()
            loss.backward()
    return [loss, *(one.grad for one in model.parameters()), *model.buffers()], measured.whole.peak


@pytest.mark.parametrize("count", [None, 3])
def test_segments_give_the_same_bits_and_take_less(count):
    plain = network()
    cut = segments(copy.deepcopy(plain), count)
    expected, before = trained(plain)
    found, after = trained(cut)
    assert all(torch.equal(one, other) for one, other in zip(expected, found, strict=True))
    assert after < 0.8 * before
    with torch.no_grad():
        assert torch.equal(cut.eval()(torch.ones(1, 4, 8, 8)), plain.eval()(torch.ones(1, 4, 8, 8)))


def test_statistics_are_as_they_were_after_an_error():
    norm = nn.BatchNorm1d(2)
    from pgmo.recompute.runtime.without_graph.fallback import _without_statistics

    with pytest.raises(RuntimeError, match="on purpose"), _without_statistics(norm):
        assert norm.momentum == 0
        raise RuntimeError("on purpose")
    assert norm.momentum == 0.1
    assert norm.num_batches_tracked is not None


def test_what_cannot_be_cut_is_told():
    class Looks(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    with pytest.raises(GraphError, match="cannot be traced"):
        segments(Looks())
    with pytest.raises(OptionError, match="1 segments"):
        segments(network(), 1)
