"""Batches made of a dataset's longest sample, if its samples differ in size.

dataset      20  251  87  133  ...        the script pads each batch to its longest sample
rehearsed   251  251  251  251            the longest sample four times: no batch of 4 takes more

Batches of differing lengths would follow no law, so that no larger batch could be predicted.
"""

import random
import sys
import time
from functools import wraps
from math import ceil
from typing import Any

from pgmo.imports import after_import

_FIRST = 16
"""Number of equally long samples after which comparing stops."""

_MOST = 4000
"""Maximum number of samples to compare, evenly spread over the dataset."""

_SECONDS = 3.0
"""Seconds after which no further samples are compared, because loading may be slow."""


class LongestSamples:
    """Hooks that replace the samples of each `DataLoader` by its dataset's longest compared sample.

    Attributes:
        notes: for each dataset whose samples differ, one sentence.
    """

    def __init__(self) -> None:
        self.notes: list[str] = []
        self._longest: dict[int, int | None] = {}  # by `id` of the dataset, also in forked workers
        self._kept: list[Any] = []  # datasets, so that no `id` is reused

    def attach(self) -> None:
        """Hook `DataLoader` and its fetcher as soon as they are imported."""
        after_import("torch.utils.data.dataloader", self._hook)

    def _hook(self) -> None:
        loaders: Any = sys.modules["torch.utils.data.dataloader"].DataLoader
        fetchers: Any = sys.modules["torch.utils.data._utils.fetch"]._MapDatasetFetcher
        begin, fetch = loaders.__iter__, fetchers.fetch

        @wraps(begin)
        def iterate(loader: Any) -> Any:
            dataset = loader.dataset
            if id(dataset) not in self._longest:
                self._kept.append(dataset)
                self._longest[id(dataset)] = None  # no recursion if a sample needs a loader
                self._longest[id(dataset)] = self._choose(loader)
            return begin(loader)

        @wraps(fetch)
        def fetched(fetcher: Any, index: Any) -> Any:
            longest = self._longest.get(id(fetcher.dataset))
            if longest is not None and isinstance(index, list):
                index = [longest] * len(index)
            return fetch(fetcher, index)

        loaders.__iter__, fetchers.fetch = iterate, fetched

    def _choose(self, loader: Any) -> int | None:
        """Return the index of the longest compared sample; None if sizes are equal or unknown."""
        try:
            sizes = _sizes(loader)
        except Exception:  # the script's own collate function may refuse a batch of one sample
            return None
        if len(set(sizes.values())) < 2:
            return None
        longest = max(sizes, key=sizes.__getitem__)
        of = min(sizes.values()), sizes[longest]
        self.notes.append(
            f"samples differ in size (from {of[0]:,} to {of[1]:,} elements, {len(sizes):,} "
            "compared): each rehearsed batch consists of copies of the longest of them"
        )
        return longest


def _sizes(loader: Any) -> dict[int, int]:
    """Return the number of elements of each compared sample, collated alone, by index, or {}."""
    dataset, sizes = loader.dataset, dict[int, int]()
    if not loader._auto_collation or not hasattr(dataset, "__getitem__"):
        return sizes
    count = len(dataset)
    indices = list(range(0, count, max(1, ceil(count / _MOST))))
    random.Random(0).shuffle(indices)  # the dataset may be sorted by length
    begin = time.monotonic()
    for at in indices:
        sizes[at] = _elements(loader.collate_fn([dataset[at]]))
        late = time.monotonic() - begin > _SECONDS
        if late or (len(sizes) == _FIRST and len(set(sizes.values())) == 1):
            break
    return sizes


def _elements(batch: Any) -> int:
    """Return the number of elements of all tensors in a batch, nested ones included."""
    import torch

    if isinstance(batch, torch.Tensor):
        return batch.numel()
    if hasattr(batch, "values"):  # a dictionary, or transformers' `BatchEncoding`
        return sum(map(_elements, batch.values()))
    if isinstance(batch, list | tuple):
        return sum(map(_elements, batch))
    return sum(map(_elements, vars(batch).values())) if hasattr(batch, "__dict__") else 0
