"""What has code of its own around a model is not captured with it."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

import pgmo  # noqa: E402

X = torch.ones(4, 8)


@pytest.fixture
def group(tmp_path):
    if not torch.distributed.is_available():
        pytest.skip("PyTorch was built without torch.distributed")
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def recompute(model):
    return pgmo.recompute(model, X, 1.0, measure=False)[0]


def test_ddp_goes_around_the_model_that_recomputes(group):
    plain = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
    wrapped = DistributedDataParallel(plain)
    with pytest.raises(
        pgmo.errors.GraphError, match=r"pgmo\.recompute\(model\.module, \.\.\.\)\[0\]"
    ):
        recompute(wrapped)
    with pytest.raises(pgmo.errors.GraphError, match=r"^0 is a DistributedDataParallel"):
        recompute(nn.Sequential(wrapped))
    wrapped = DistributedDataParallel(recompute(plain))
    for _ in range(3):
        wrapped.zero_grad()
        wrapped(X).sum().backward()
    assert plain[0].weight.grad is not None


def test_what_is_in_data_parallel():
    with pytest.raises(pgmo.errors.GraphError, match="a process for each device"):
        recompute(nn.DataParallel(nn.Linear(8, 8)))


def test_fully_sharded_modules_are_known_by_their_class():
    class FSDPModule(nn.Linear):
        pass

    FSDPModule.__module__ = "torch.distributed.fsdp._fully_shard._fully_shard"
    with pytest.raises(pgmo.errors.GraphError, match=r"torch\.utils\.checkpoint"):
        recompute(FSDPModule(8, 8))


def test_compiled_models():
    inplace = nn.Linear(8, 8)
    inplace.compile(backend="eager")
    for model in (torch.compile(nn.Linear(8, 8), backend="eager"), inplace):
        with pytest.raises(pgmo.errors.GraphError, match="the model is compiled"):
            recompute(model)


def test_parameters_without_shapes():
    model = nn.Sequential(nn.LazyLinear(8), nn.LazyBatchNorm1d())
    with pytest.raises(pgmo.errors.GraphError, match=r"0\.weight has no shape yet"):
        pgmo.recompute(model, torch.ones(4, 8))
    model(torch.ones(4, 8))
    pgmo.recompute(model, torch.ones(4, 8), measure=False)
