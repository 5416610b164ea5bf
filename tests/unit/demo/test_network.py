import pytest

from pgmo.demo.network import NAMES, TITLES, VARYING_NAMES, create
from pgmo.errors import OptionError

torch = pytest.importorskip("torch")


def test_every_network_has_a_title():
    assert set(TITLES) == set(NAMES)


def test_an_unknown_network_is_refused_with_the_known_ones():
    with pytest.raises(OptionError, match=r"no demo network 'vgg'.*resnet, unet, gpt, lstm"):
        create("vgg", seed=0)


@pytest.mark.parametrize("name", NAMES)
def test_batches_depend_on_nothing_but_seed_and_index(name):
    network = create(name, seed=3)
    torch.rand(5)  # the global generator plays no part
    again = create(name, seed=3)
    for one, other in zip(network.batch(7), again.batch(7), strict=True):
        assert torch.equal(one, other)
    assert not all(map(torch.equal, network.batch(7), network.batch(8)))
    assert not all(map(torch.equal, network.batch(7), create(name, seed=4).batch(7)))


@pytest.mark.parametrize("name", NAMES)
def test_training_lowers_the_loss_on_a_batch_seen_again(name):
    network = create(name, seed=0)
    length = network.lengths[0] if network.lengths else None
    batch = network.batch(0, length)
    losses = [float(network.step(batch)) for _ in range(3)]
    assert min(losses[1:]) < losses[0]


@pytest.mark.parametrize("name", NAMES)
def test_only_sequence_networks_have_lengths(name):
    network = create(name, seed=0)
    assert (network.lengths is not None) == (name in VARYING_NAMES)
    if network.lengths is None:
        return
    shortest, longest = network.lengths
    assert {part.shape[1] for part in network.batch(0)} == {longest}
    assert {part.shape[1] for part in network.batch(0, shortest)} == {shortest}


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_gets_a_gradient(name):
    network = create(name, seed=0)
    network.loss(network.batch(0, network.lengths[0] if network.lengths else None)).backward()
    assert all(parameter.grad is not None for parameter in network.model.parameters())
