"""Losses over a large vocabulary."""

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from faulty import program
from faulty.models import Model, train

_WORDS = 32000
_CHUNKS = 16


def _in_chunks(model: Model, ids: Tensor) -> Tensor:
    """Return the loss, computed in chunks that the backward pass computes again."""

    def of_chunk(hidden: Tensor, words: Tensor) -> Tensor:
        return functional.cross_entropy(model.head(hidden).float(), words, reduction="sum")

    hidden, words = model.hidden(ids).flatten(0, 1), ids.flatten()
    parts = zip(hidden.chunk(_CHUNKS), words.chunk(_CHUNKS), strict=True)
    losses = [checkpoint(of_chunk, *part, use_reentrant=True) for part in parts]
    return torch.stack(losses).sum() / len(words)


@program("The loss's own tensors make the peak", "NVIDIA-NeMo/Automodel#3907")
def full_logits(fixed: bool) -> None:
    """Compute all logits at once, with their log-probabilities and gradients."""

    def whole(model: Model, ids: Tensor) -> Tensor:
        return functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())

    train(Model(words=_WORDS).cuda(), loss=_in_chunks if fixed else whole)


@program("The loss's own tensors make the peak", "QwenLM/Qwen3#570")
def logits_in_float(fixed: bool) -> None:
    """Copy bfloat16 logits to float32 for the loss."""

    def copied(model: Model, ids: Tensor) -> Tensor:
        return functional.cross_entropy(model(ids).float().flatten(0, 1), ids.flatten())

    train(Model(words=_WORDS).cuda().bfloat16(), loss=_in_chunks if fixed else copied)


@program("A matrix of zeros and ones", "pytorch/pytorch#13882")
def one_hot(fixed: bool) -> None:
    """Select the class by a product with a one-hot matrix."""

    def product(model: Model, ids: Tensor) -> Tensor:
        scores = model(ids).flatten(0, 1)
        return -(scores * functional.one_hot(ids.flatten(), _WORDS)).sum(-1).mean()

    def gathered(model: Model, ids: Tensor) -> Tensor:
        scores = model(ids).flatten(0, 1)
        return -scores.gather(-1, ids.flatten()[:, None]).mean()

    train(Model(words=_WORDS).cuda(), loss=gathered if fixed else product)


@program("The loss's own tensors make the peak", "huggingface/trl#4013")
def entropy_of_logits(fixed: bool) -> None:
    """Compute the entropy of the distributions of all tokens at once."""

    def of(scores: Tensor) -> Tensor:
        logs = scores.log_softmax(-1)
        return -(logs.exp() * logs).sum(-1)

    def whole(model: Model, ids: Tensor) -> Tensor:
        return of(model(ids).flatten(0, 1)).mean()

    def in_chunks(model: Model, ids: Tensor) -> Tensor:
        hidden = model.hidden(ids).flatten(0, 1)
        parts = [
            checkpoint(lambda part: of(model.head(part)).sum(), part, use_reentrant=True)
            for part in hidden.chunk(_CHUNKS)
        ]
        return torch.stack(parts).sum() / len(hidden)

    train(Model(words=_WORDS).cuda(), loss=in_chunks if fixed else whole)


@program("The loss's own tensors make the peak", "huggingface/transformers#35646")
def shifted_logits(fixed: bool) -> None:
    """Shift the logits by one token, which copies them."""

    def shifted(model: Model, ids: Tensor) -> Tensor:
        scores = model(ids)[:, :-1].contiguous()
        return functional.cross_entropy(scores.flatten(0, 1), ids[:, 1:].flatten())

    train(Model(words=_WORDS).cuda(), loss=_in_chunks if fixed else shifted)
