import pytest

from pgmo.doctor.machine import conflicting_settings, memory_problems


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("PYTORCH_CUDA_ALLOC_CONF", "backend:cudaMallocAsync", "the driver's memory pool"),
        ("PYTORCH_ALLOC_CONF", "a:1,backend:cudaMallocAsync", "the driver's memory pool"),
        ("PYTORCH_NO_CUDA_MEMORY_CACHING", "1", "every block without a slot"),
        ("CUDA_VISIBLE_DEVICES", "", "hides every GPU"),
        ("MALLOC_TRIM_THRESHOLD_", "0", "malloc's thresholds"),
    ],
)
def test_settings_that_get_in_the_way(name, value, words):
    (problem,) = conflicting_settings({name: value})
    assert name in problem.what
    assert words in problem.what
    assert "unset" in problem.remedy


def test_settings_that_do_not():
    fine = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "CUDA_VISIBLE_DEVICES": "1"}
    assert not list(conflicting_settings(fine))


def test_little_memory():
    assert next(memory_problems(100 << 20)).what.startswith("100 MiB of memory")
    assert not list(memory_problems(0))  # 0: unknown
