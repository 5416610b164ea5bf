"""Programs of several ranks, with a fake process group instead of the other ranks."""

from torch import distributed
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore
from workloads.training import sum_of_bucket

from faulty import program
from faulty.models import Model, mean_of_logits, train


def begin(world: int) -> None:
    """Join a fake process group of `world` ranks as rank 0."""
    distributed.init_process_group("fake", rank=0, world_size=world, store=FakeStore())


def replicated(model: Model, *, views: bool) -> DistributedDataParallel:
    """Return the model under DDP, with gradients as `views` of the buckets or not."""
    parallel = DistributedDataParallel(model.cuda(), gradient_as_bucket_view=views)
    parallel.register_comm_hook(None, sum_of_bucket)
    return parallel


@program("Gradients are held twice", "pytorch/pytorch#41954")
def gradients_and_buckets(fixed: bool) -> None:
    """Train under DDP with gradients outside of the buckets."""
    begin(2)
    model = replicated(Model(layers=32), views=fixed)
    train(model, count=8, batch=1, length=64, loss=mean_of_logits)


@program("All parameters are gathered at once", "pytorch/tutorials#1861")
def one_unit(fixed: bool) -> None:
    """Shard the whole model as one FSDP unit."""
    begin(8)
    model = Model(layers=32).cuda()
    if fixed:
        for block in model.blocks:
            fully_shard(block)
    fully_shard(model)
    train(model, count=8, batch=1, length=64, loss=mean_of_logits)


@program("Gathered parameters are kept for the backward pass", "saforem2/ezpz#173")
def not_resharded(fixed: bool) -> None:
    """Keep the gathered parameters of all layers from the forward to the backward pass."""
    begin(8)
    model = Model(layers=32).cuda()
    for block in model.blocks:
        fully_shard(block, reshard_after_forward=fixed)
    fully_shard(model)
    train(model, count=8, batch=1, length=64, loss=mean_of_logits)


@program("Parameters are gathered too early", "instructlab/training#307")
def prefetched_layers(fixed: bool) -> None:
    """Gather the parameters of eight layers ahead, in both passes."""
    begin(8)
    model = Model(layers=32).cuda()
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    if not fixed:
        blocks = list(model.blocks)
        for at, block in enumerate(blocks):
            block.set_modules_to_forward_prefetch(blocks[at + 1 : at + 9])
            block.set_modules_to_backward_prefetch(blocks[max(0, at - 8) : at][::-1])
    train(model, count=8, batch=1, length=64, loss=mean_of_logits)
