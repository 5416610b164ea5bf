"""Card, ranks and libraries that a script finds in a rehearsal."""

import json

import pytest

from tests.fakecuda.rehearsal.conftest import outputs_of

SCRIPTS: dict[str, str] = {}


@pytest.fixture(scope="module")
def scene(tmp_path_factory):
    """Return the output of `SCRIPTS`, which need one card of the usual kind."""
    return outputs_of(tmp_path_factory.mktemp("scene"), SCRIPTS)


CARD = """
import json, torch
one = torch.cuda.get_device_properties(0)
free, total = torch.cuda.mem_get_info()
output.write(json.dumps([
    one.name, one.total_memory, [one.major, one.minor], one.multi_processor_count,
    torch.cuda.device_count(), torch.cuda.is_bf16_supported(including_emulation=False),
    total - free, total,
]))
"""


def test_a_card_is_what_it_is_called(output_of):
    name, memory, capability, processors, count, half, taken, total = json.loads(
        output_of(CARD, card="T4", devices=3)
    )
    assert (name, capability, processors, count) == ("T4", [7, 5], 40, 3)
    assert not half
    assert memory == total
    assert taken > 0  # the context


def test_a_card_may_be_its_size_alone(output_of):
    _, memory, *_, half, _, _ = json.loads(output_of(CARD, card="10GiB"))
    assert memory == 10 << 30
    assert half


WORLD = """
import json, os, torch, torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

kind = sys.argv[2]
dist.init_process_group("nccl")
local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
model = nn.Sequential(*[nn.Linear(256, 256) for _ in range(4)]).cuda()
if kind == "ddp":
    model = nn.parallel.DistributedDataParallel(model, device_ids=[local])
else:
    mesh = init_device_mesh("cuda", (2, dist.get_world_size() // 2), mesh_dim_names=("r", "s"))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(4):
    loss = model(torch.randn(8, 256, device="cuda")).square().mean()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
everyone = [None] * dist.get_world_size()
dist.all_gather_object(everyone, local)
group = dist.new_group([0, 1], backend="gloo")
dist.barrier()
output.write(json.dumps([dist.get_rank(), dist.get_world_size(), local, everyone]))
dist.destroy_process_group()
"""


@pytest.mark.parametrize("kind", ["ddp", "fsdp2"])
def test_one_rank_of_a_world(run, tmp_path, kind):
    target = tmp_path / "output.txt"
    code = "import sys\noutput = open(sys.argv[1], 'w')\n" + WORLD + "output.close()\n"
    answer = run(code, str(target), kind, world=16, devices=8, rank=11)
    assert answer.fits, answer.error
    assert (answer.rank, answer.iterations) == (11, 4)
    assert json.loads(target.read_text()) == [11, 16, 3, [3] * 16]


OWN_RANKS = """
import os, sys, torch, torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

def work(rank, size, path):
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": "12355"}
    dist.init_process_group("nccl", rank=rank, world_size=size)
    model = nn.parallel.DistributedDataParallel(nn.Linear(64, 64).cuda(), device_ids=[0])
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    model(torch.randn(8, 64, device="cuda")).sum().backward()
    optimizer.step()
    with open(path, "w") as output:
        output.write(f"{dist.get_rank()} of {dist.get_world_size()}")

if __name__ == "__main__":
    mp.spawn(work, args=(4, sys.argv[1]), nprocs=4)
"""


def test_a_script_that_starts_its_ranks_is_one_of_them(run, tmp_path):
    target = tmp_path / "output.txt"
    answer = run(OWN_RANKS, str(target))
    assert answer.fits, answer.error
    assert answer.iterations == 1
    assert target.read_text() == "0 of 4"
    notes = "; ".join(answer.notes)
    assert "starts 4 processes, of which only number 0 was rehearsed" in notes
    assert "the script makes itself rank 0 of 4" in notes


SCRIPTS["one_rank"] = """
import torch, torch.distributed as dist
dist.init_process_group("nccl")
one = torch.full((2,), 3, device="cuda")
dist.all_reduce(one)
output.write(f"{dist.get_rank()} {dist.get_world_size()} {one.tolist()}")
dist.destroy_process_group()
"""


def test_a_world_of_one_needs_no_network(scene):
    assert scene["one_rank"] == "0 1 [3, 3]"


SCRIPTS["convolution"] = """
import json, torch
from torch import nn
half = dict(device="cuda", dtype=torch.float16)
layer = nn.Conv2d(32, 64, 3, padding=1).to(**half)
picture = torch.randn(4, 32, 64, 64, **half, requires_grad=True)
before = torch.cuda.memory_allocated()
made = layer(picture)
saved = torch.cuda.memory_allocated() - before
torch.cuda.reset_peak_memory_stats()
before = torch.cuda.memory_allocated()
made.sum().backward()
output.write(json.dumps([saved, made.nbytes, torch.cuda.max_memory_allocated() - before]))
"""


def test_convolutions_keep_nothing_but_their_output(scene):
    saved, output, backward = json.loads(scene["convolution"])
    assert saved == output  # without cuDNN, unfolded pictures would be saved, too
    assert backward > output


def test_a_model_of_workspaces_is_said_to_be_one(run):
    code = SCRIPTS["convolution"].replace("output.write", "print")
    with_cores, without = run(code, card="RTX 4090"), run(code, card="P100 16GB")
    assert any("workspaces of cuDNN" in note for note in with_cores.notes)
    assert not any("workspaces of cuDNN" in note for note in without.notes)
    capped = run(code, environment={"CUDNN_CONV_WSCAP_DBG": "1"})
    assert capped.allocated_peak < with_cores.allocated_peak


SCRIPTS["recurrent"] = """
import json, torch
from torch import nn
lstm = nn.LSTM(32, 64, 2, batch_first=True, bidirectional=True).cuda()
lengths = torch.tensor([9, 4, 7])
packed = nn.utils.rnn.pack_padded_sequence(
    torch.randn(3, 9, 32, device="cuda"), lengths, batch_first=True, enforce_sorted=False
)
out, _ = nn.utils.rnn.pad_packed_sequence(lstm(packed)[0], batch_first=True)
out.sum().backward()
whole = {one.untyped_storage().data_ptr() for one in lstm.parameters()}
output.write(json.dumps([list(out.shape), len(whole)]))
"""


def test_recurrent_networks_run_on_cudnn(scene):
    shape, buffers = json.loads(scene["recurrent"])
    assert shape == [3, 9, 128]
    assert buffers == 1  # cuDNN's buffer, which holds all weights


SCRIPTS["attention"] = """
import torch
from torch.nn import functional
half = dict(device="cuda", dtype=torch.bfloat16, requires_grad=True)
query = torch.randn(2, 4, 512, 64, **half)
made = functional.scaled_dot_product_attention(query, query, query, is_causal=True)
made.sum().backward()
output.write(type(made.grad_fn).__name__)
"""


def test_attention_is_computed_by_the_kernels_of_the_card(scene, output_of):
    assert "Flash" in scene["attention"]
    assert "Cudnn" in output_of(SCRIPTS["attention"], card="H100 SXM")
    # A T4 has no fused kernel for bfloat16, so tensors are converted for matrix products.
    assert "ToCopy" in output_of(SCRIPTS["attention"], card="T4")
