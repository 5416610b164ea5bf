"""GPT-2 medium under PyTorch's own parallel modes.

No program reads a value: the stub computes none, and the fake process group transfers none.
"""

from collections.abc import Callable

import torch
import torch.distributed as dist
from torch import Tensor, nn, optim
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore
from workloads import LENGTHS, Shape
from workloads.gpt import Model
from workloads.job import SMALL_GPT
from workloads.training import sum_of_bucket

from ranks import RankJob

MOST_TOGETHER = 8
"""Largest number of ranks that share a layer, or a pipeline. Larger worlds have replicas."""

Step = Callable[[], None]


def begin(job: RankJob) -> None:
    """Join the job's world as rank 1, which has a rank before it in a pipeline."""
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_cudnn_sdp(False)
    dist.init_process_group("fake", rank=1, world_size=job.world, store=FakeStore())


def create(job: RankJob) -> Step:
    """Build the model on the current device; return a function that trains on one batch."""
    return _PROGRAMS[job.program](job)


def ddp(job: RankJob) -> Step:
    """Build DDP: replicas under autocast, with gradients averaged in buckets."""
    model = DistributedDataParallel(_model(job), device_ids=[0])
    model.register_comm_hook(None, sum_of_bucket)
    return _training(model, job, autocast=True)


def fsdp2(job: RankJob, recompute: bool = False) -> Step:
    """Build FSDP2: layers are sharded on the device, and gathered in bfloat16."""
    model = _model(job, recompute)
    _shard(model, init_device_mesh("cuda", (job.world,)))
    return _training(model, job)


def fsdp2_recompute(job: RankJob) -> Step:
    """Build FSDP2 whose layers run again in the backward pass."""
    return fsdp2(job, recompute=True)


def fsdp2_meta(job: RankJob) -> Step:
    """Build FSDP2 whose layers are sharded on the meta device, as large models are."""
    with torch.device("meta"):
        model = Model(_shape(job))
    _shard(model, init_device_mesh("cuda", (job.world,)))
    model.to_empty(device="cuda")
    for module in model.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    return _training(model, job)


def tensor_parallel(job: RankJob) -> Step:
    """Build tensor parallelism: up to 8 ranks share the matrices of each layer."""
    together = min(job.world, MOST_TOGETHER)
    mesh = init_device_mesh(
        "cuda", (job.world // together, together), mesh_dim_names=("replicas", "parts")
    )
    model = _model(job)
    for layer in model.layers:
        layer.heads //= together
        parts = {"project": ColwiseParallel(), "feed.0": ColwiseParallel()}
        parts |= {"mix": RowwiseParallel(), "feed.2": RowwiseParallel()}
        parallelize_module(layer, mesh["parts"], parts)
    parallelize_module(model, mesh["parts"], {"head": ColwiseParallel(output_layouts=Replicate())})
    if job.world > together:
        _shard(model, mesh["replicas"])
    return _training(model, job, autocast=job.world == together)


def pipeline(job: RankJob) -> Step:
    """Build this rank's pipeline stage, with `job.batch` micro-batches."""
    stages = min(job.world, MOST_TOGETHER)
    mesh = init_device_mesh(
        "cuda", (job.world // stages, stages), mesh_dim_names=("replicas", "stages")
    )
    whole = Model(_shape(job)) if job.small else None
    if whole is None:
        with torch.device("meta"):
            whole = Model(_shape(job))
    stage = mesh["stages"].get_local_rank()
    each = len(whole.layers) // stages
    part: nn.Module = nn.Sequential(*whole.layers[stage * each : (stage + 1) * each])
    is_last = stage == stages - 1
    if is_last:
        part = nn.Sequential(part, whole.norm, whole.head)
    part.to_empty(device="cuda")
    if job.world > stages:
        _shard_layers(part, mesh["replicas"])
    else:
        part.to(torch.bfloat16)
    width, vocabulary = whole.head.in_features, whole.head.out_features
    length = _length(job)
    kind = torch.bfloat16
    together = 1 if job.small else 4  # samples
    sample = torch.empty(together, length, width, dtype=kind, device="meta")
    result = torch.empty(
        together, length, vocabulary if is_last else width, dtype=kind, device="meta"
    )
    running = PipelineStage(
        part,
        stage,
        stages,
        torch.device("cuda", 0),
        input_args=(sample,),
        output_args=(result,),
        group=mesh["stages"].get_group(),
    )
    schedule = Schedule1F1B(running, job.batch, loss_fn=_loss)
    optimizer = _adamw(part)

    def step() -> None:
        following = torch.zeros(job.batch * together, length, dtype=torch.long, device="cuda")
        optimizer.zero_grad()
        schedule.step(**({"target": following} if is_last else {}))
        optimizer.step()

    return step


_PROGRAMS = {
    one.__name__: one
    for one in (ddp, fsdp2, fsdp2_recompute, fsdp2_meta, tensor_parallel, pipeline)
}


def _shape(job: RankJob, recompute: bool = False) -> Shape:
    return Shape(job.batch, recompute, job.small)


def _length(job: RankJob) -> int:
    return (SMALL_GPT if job.small else LENGTHS["gpt"]).fixed


def _model(job: RankJob, recompute: bool = False) -> Model:
    with torch.device("cuda"):
        return Model(_shape(job, recompute))


def _shard(model: Model, mesh: DeviceMesh) -> None:
    _shard_layers(model.layers, mesh)
    fully_shard(model, mesh=mesh, mp_policy=_POLICY)


def _shard_layers(layers: nn.Module, mesh: DeviceMesh) -> None:
    for layer in layers.children():
        fully_shard(layer, mesh=mesh, mp_policy=_POLICY)


_POLICY = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)


def _adamw(model: nn.Module) -> optim.Optimizer:
    """Return AdamW with a parameter group per mesh: its foreach operators need one mesh."""
    groups: dict[DeviceMesh | None, list[nn.Parameter]] = {}
    for parameter in model.parameters():
        groups.setdefault(getattr(parameter, "device_mesh", None), []).append(parameter)
    return optim.AdamW([{"params": of_mesh} for of_mesh in groups.values()])


def _loss(logits: Tensor, following: Tensor) -> Tensor:
    return functional.cross_entropy(logits.flatten(0, 1), following.flatten())


def _training(model: nn.Module, job: RankJob, *, autocast: bool = False) -> Step:
    optimizer = _adamw(model)

    def step() -> None:
        tokens = torch.zeros(job.batch, _length(job), dtype=torch.long, device="cuda")
        following = torch.zeros_like(tokens)
        optimizer.zero_grad()
        with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
            loss = _loss(model(tokens), following)
        loss.backward()
        optimizer.step()

    return step
