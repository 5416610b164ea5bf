"""Modelled time, name and example arguments of a node's operator.

    seconds = flops / rate + bytes / bandwidth

Rates are round numbers of a current device. Without offloading, only ratios of costs matter.
"""

import math
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils.flop_counter import flop_registry

from pgmo.recompute.capture.compat import fakes
from pgmo.recompute.capture.memory_use.facts import forget_facts, once_for_copies

_RATES = {"cpu": (1e11, 1e10), "cuda": (5e13, 1e12)}
"""Floating-point operations and bytes per second, by type of device."""


@once_for_copies
def modelled(node: fx.Node) -> float:
    """Return the modelled time of a node in seconds."""
    arguments, keywords = example_arguments(node)
    read, written = fakes((arguments, keywords)), fakes(node.meta.get("val"))
    moved = sum(one.numel() * one.element_size() for one in (*read, *written))
    device = next((one.device.type for one in (*written, *read)), "cpu")
    rate, bandwidth = _RATES.get(device, _RATES["cuda"])
    return _flops(node, arguments, keywords) / rate + moved / bandwidth


def example_arguments(node: fx.Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and keyword arguments of a node, with example values for nodes."""
    arguments, keywords = fx.node.map_arg(
        (node.args, node.kwargs), lambda argument: argument.meta.get("val")
    )
    return tuple(arguments), dict(keywords)


def update_example(node: fx.Node) -> None:
    """Compute a node's example value again after a change of an input's storage or layout."""
    forget_facts(node)
    arguments, keywords = example_arguments(node)
    assert callable(node.target)
    node.meta["val"] = node.target(*arguments, **keywords)


def _flops(node: fx.Node, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> float:
    packet = getattr(node.target, "_overloadpacket", None)
    if packet is None:
        return 0.0
    if str(packet) == "aten._scaled_dot_product_flash_attention_for_cpu":
        return _attention(arguments[0], arguments[1])
    if str(packet) == "aten._scaled_dot_product_flash_attention_for_cpu_backward":
        return 2.5 * _attention(arguments[1], arguments[2])
    formula = flop_registry.get(packet)
    if formula is None:
        return 0.0
    return float(formula(*arguments, **keywords, out_val=node.meta.get("val")))


def _attention(query: Tensor, key: Tensor) -> float:
    # Two matrix products; the backward pass has five (Dao et al. 2022, section 3.1).
    return 4.0 * math.prod(query.shape) * key.shape[-2]


def bandwidth(device: str) -> float:
    """Return the assumed memory bandwidth of a type of device, in bytes per second."""
    return _RATES.get(device, _RATES["cuda"])[1]


def operator_name(node: fx.Node) -> str:
    """Return the name of a node's operator, such as `aten.convolution`."""
    packet = getattr(node.target, "_overloadpacket", None)
    return str(packet if packet is not None else getattr(node.target, "__name__", node.target))


def is_random(node: fx.Node) -> bool:
    """Return whether a node draws random numbers.

    Fused attention is tagged as random, but draws none if its dropout is 0.
    """
    tags = getattr(node.target, "tags", ())
    if torch.Tag.nondeterministic_seeded not in tags:
        return False
    schema = getattr(node.target, "_schema", None)
    if schema is None:
        return True
    for position, argument in enumerate(schema.arguments):
        if argument.name == "dropout_p":
            given = node.args[position] if position < len(node.args) else None
            dropout = node.kwargs.get(
                "dropout_p", argument.default_value if given is None else given
            )
            return bool(dropout != 0.0)
    return True
