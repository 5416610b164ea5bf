"""Tests that a rehearsal makes batches of the longest samples if samples differ in length."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, IterableDataset
from torch.utils.data._utils import fetch

from pgmo.fit.observer.longest import LongestSamples


@pytest.fixture
def hooked(monkeypatch: pytest.MonkeyPatch) -> LongestSamples:
    """Attach hooks to torch's loaders until the end of the test."""
    monkeypatch.setattr(DataLoader, "__iter__", DataLoader.__iter__)
    monkeypatch.setattr(fetch._MapDatasetFetcher, "fetch", fetch._MapDatasetFetcher.fetch)
    made = LongestSamples()
    made.attach()
    return made


LENGTHS = [5, 40, 12, 90, 33, 7, 61, 28] * 4


def padded(samples: list[Tensor]) -> dict[str, Tensor]:
    return {"ids": pad_sequence(samples, batch_first=True)}


@pytest.mark.parametrize("workers", [0, 1])
def test_each_batch_is_as_long_as_the_longest_sample(hooked: LongestSamples, workers: int) -> None:
    data = [torch.zeros(length) for length in LENGTHS]
    loader = DataLoader(data, 4, shuffle=True, collate_fn=padded, num_workers=workers)  # type: ignore[arg-type]
    assert [batch["ids"].shape for batch in loader] == [(4, 90)] * 8
    assert len(list(loader)) == 8
    (note,) = hooked.notes
    assert note.startswith("samples differ in size (from 5 to 90 elements, 32 compared)")


def test_equal_samples_stay_as_they_are(hooked: LongestSamples) -> None:
    asked: list[int] = []

    class Images:
        def __len__(self) -> int:
            return 1000

        def __getitem__(self, at: int) -> Tensor:
            asked.append(at)
            return torch.full((3,), float(at))

    batches = list(DataLoader(Images(), 500))  # type: ignore[arg-type]
    assert torch.equal(batches[1][:, 0], torch.arange(500.0, 1000.0))
    assert len(asked) < 1000 + 20
    assert hooked.notes == []


def test_a_dataset_that_is_sorted_by_length_is_compared_to_its_end(hooked: LongestSamples) -> None:
    data = [torch.zeros(length) for length in [8] * 40 + [9] * 40 + [70] * 40]
    loader = DataLoader(data, 4, collate_fn=padded)  # type: ignore[arg-type]
    assert {batch["ids"].shape for batch in loader} == {(4, 70)}


@pytest.mark.parametrize("batch", [None, 2])
def test_incomparable_samples_stay_as_they_are(hooked: LongestSamples, batch: int | None) -> None:
    def refuses(samples: Any) -> Any:
        if isinstance(samples, list) and len(samples) < 2:
            raise ValueError("no batch of one sample")
        return samples

    data = [torch.zeros(length) for length in LENGTHS[:4]]
    loader: Any = DataLoader(data, batch, collate_fn=refuses)  # type: ignore[arg-type]
    shapes = [one.shape for found in loader for one in (found if batch else [found])]
    assert shapes == [(5,), (40,), (12,), (90,)]


def test_streams_of_samples_stay_as_they_are(hooked: LongestSamples) -> None:
    class Stream(IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            return iter(range(6))

    assert [one.tolist() for one in DataLoader(Stream(), 3)] == [[0, 1, 2], [3, 4, 5]]
