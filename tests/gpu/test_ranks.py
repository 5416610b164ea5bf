"""Tests of PyTorch's engines over NCCL, on one and two devices, with the same bits."""

import subprocess
from concurrent.futures import ThreadPoolExecutor

import pytest

torch = pytest.importorskip("torch")

from tests.gpu.device import STUB  # noqa: E402
from tests.gpu.processes import result_of, run_module  # noqa: E402

ONE = ("ddp", "ddp_views", "fsdp1", "fsdp2", "fsdp2_kept", "fsdp2_half", "fsdp2_offloaded", "zero1")
TWO = (*ONE, "tensor_parallel", "sequence_parallel", "pipeline")


STUBS = ("ddp", "fsdp2")
"""Engines that are tested on the stub; tests/fakecuda/ranks tests the others."""


def why_not_nccl():
    """Return why ranks cannot be tested, or "" if they can."""
    if not torch.distributed.is_available():
        return "this PyTorch has no torch.distributed"
    if not STUB and not torch.distributed.is_nccl_available():
        return "this PyTorch has no NCCL"
    return ""


pytestmark = pytest.mark.skipif(bool(why_not_nccl()), reason=why_not_nccl() or "-")


def ranks(folder, world, engines):
    """Run ranks, compare each with its run without pgmo, and return their printed results."""

    def start(rank):
        numbers = {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_RANK": str(rank)}
        arguments = ("rank_program", str(folder), *engines)
        return result_of(run_module(*arguments, environment=numbers, timeout=160))

    with ThreadPoolExecutor(world) as pool:
        running = [pool.submit(start, rank) for rank in range(1 if STUB else world)]
    # A failed rank explains more than the ranks that wait for it until their timeout.
    running.sort(key=lambda one: isinstance(one.exception(), subprocess.TimeoutExpired))
    for one in running:
        one.result()
    results = sorted((one.result() for one in running), key=lambda one: one["rank"])
    for one in results:
        rank = one["rank"]
        for engine in engines:
            found = one[engine]
            assert found["devices"] == 2 * [f"cuda:{rank}"]
            assert all(phases[-1] in ("replay", "backoff") for phases in found["phases"]), engine
            assert found["saved"][-1].endswith(".pgmoplan")
            if not STUB:
                assert found["runs"][1:] == 2 * found["runs"][:1], engine
    return results


def test_one_device(tmp_path):
    if STUB:
        ranks(tmp_path, 8, STUBS)  # the first of eight ranks, over a fake process group
    else:
        ranks(tmp_path, 1, ONE)


@pytest.mark.skipif(STUB, reason="the stub has no NCCL")
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one device")
def test_two_devices(tmp_path):
    ranks(tmp_path, 2, TWO)
    names = {path.name for path in tmp_path.glob("ddp-*.txt")}
    assert names == {"ddp-rank0-of-2.txt", "ddp-rank1-of-2.txt"}
