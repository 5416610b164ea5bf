"""Cards are found by usual names, and have the figures of their type."""

import pytest

from pgmo.cards import Card, all_cards, find
from pgmo.errors import OptionError


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("RTX 4090", "RTX 4090"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("rtx4090", "RTX 4090"),
        ("A100-40GB", "A100 40GB PCIe"),
        ("A100-SXM-80GB", "A100 80GB SXM"),
        ("Tesla T4", "T4"),
        ("H100", "H100 SXM"),
        ("a6000", "RTX A6000"),
        ("A100 40GB MIG 1g.5gb", "A100 40GB MIG 1g.5gb"),
        ("NVIDIA GB10", "GB10"),
        ("NVIDIA Thor", "Jetson AGX Thor"),
    ],
)
def test_a_card_is_found_by_its_common_names(text: str, name: str) -> None:
    assert find(text).name == name


def test_a_size_is_a_card_that_has_it_and_nothing_else() -> None:
    card = find("16GiB")
    assert card.usable == card.memory == 16 << 30
    assert card.anonymous
    assert not find("L4").anonymous
    known = find("A100-40GB")
    assert (card.capability, card.multiprocessors) == (known.capability, known.multiprocessors)


def test_an_unknown_name_says_which_come_near() -> None:
    with pytest.raises(OptionError, match=r"RTX 4090") as error:
        find("RTX 4091")
    assert "24GiB" in str(error.value)


def test_a_card_is_itself() -> None:
    card = find("L4")
    assert find(card) is card


@pytest.mark.parametrize("card", all_cards(), ids=lambda card: card.name)
def test_figures_are_of_their_kind(card: Card) -> None:
    assert 0.9 * card.memory < card.usable <= card.memory
    assert 4 << 30 <= card.memory <= 256 << 30
    assert (6, 0) <= card.capability <= (12, 1)
    assert 10 < card.multiprocessors < 256
    assert 1e11 < card.bandwidth < 1e13
    assert 1e12 < card.flops["float32"] <= max(card.flops.values()) < 1e16
    assert card.source.startswith("https://")
    assert card.usable_source
    assert find(card.name) == card


def test_only_cards_with_hardware_for_it_have_a_rate_of_bfloat16() -> None:
    assert {card.capability >= (8, 0) for card in all_cards() if "bfloat16" in card.flops} == {True}
