"""Programs that do nothing wrong."""

import io
from contextlib import nullcontext

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.utils.checkpoint import checkpoint

from faulty import program
from faulty.models import Model, batches, cross_entropy, mean_of_hidden
from faulty.several_ranks import begin, replicated


def _train(model: Model, count: int, batch: int = 4) -> None:
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for ids in batches(count, batch=batch):
        mean_of_hidden(model, ids).backward()
        optimizer.step()
        optimizer.zero_grad()


@program("", "a plain training loop")
def plain_training(mended: bool) -> None:
    """Fixed shapes."""
    _train(Model(layers=6).cuda(), 12)


@program("", "an evaluation under no_grad")
def with_evaluation(mended: bool) -> None:
    """Evaluations between epochs."""
    model = Model().cuda()
    for _ in range(2):
        _train(model, 6)
        with torch.no_grad():
            for ids in batches(3, batch=8):
                float(cross_entropy(model, ids))


@program("", "a cache that fills up")
def cache_that_fills(mended: bool) -> None:
    """Batches that stay on the device, four of them."""
    model = Model().cuda()
    kept: list[torch.Tensor] = []
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for number, ids in enumerate(batches(16)):
        if number < 4:
            kept.append(ids)
        mean_of_hidden(model, kept[number % 4]).backward()
        optimizer.step()
        optimizer.zero_grad()


@program("", "accumulation of gradients")
def accumulation(mended: bool) -> None:
    """Four micro-batches a step."""
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for number, ids in enumerate(batches(24, batch=2)):
        mean_of_hidden(model, ids).backward()
        if number % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()


@program("", "mixed precision")
def autocast(mended: bool) -> None:
    """Weights in float, operations in bfloat16."""
    model = Model(layers=6).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for ids in batches(12):
        with torch.autocast("cuda", torch.bfloat16):
            loss = mean_of_hidden(model, ids)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        del loss


@program("", "recomputation")
def recomputation(mended: bool) -> None:
    """Each block runs again in the backward pass."""
    model = Model(layers=6).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for ids in batches(12):
        hidden = model.embedding(ids)
        for block in model.blocks:
            hidden = checkpoint(block, hidden, use_reentrant=False)
        hidden.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@program("", "two towers of one class, both trained")
def two_towers(mended: bool) -> None:
    """Two models of equal sizes, neither a copy of the other."""
    first, second = Model(layers=4).cuda(), Model(layers=4).cuda()
    optimizer = torch.optim.AdamW([*first.parameters(), *second.parameters()], fused=True)
    for ids in batches(12, batch=2):
        (mean_of_hidden(first, ids) + mean_of_hidden(second, ids)).backward()
        optimizer.step()
        optimizer.zero_grad()


@program("", "a network of convolutions")
def convolutions(mended: bool) -> None:
    """Convolutions, norms and a pooling, with an evaluation."""
    layers = [
        nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU())
        for _ in range(6)
    ]
    net = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), *layers, nn.AdaptiveAvgPool2d(1)).cuda()
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    for _ in range(12):
        net(torch.ones(8, 3, 64, 64, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    net.eval()
    with torch.no_grad():
        net(torch.ones(32, 3, 64, 64, device="cuda")).sum().item()


@program("", "words one by one, with a cache of keys and values")
def generation(mended: bool) -> None:
    """A cache of fixed size, into which each word's keys and values are written."""
    model = Model(layers=6).cuda()
    cache = [torch.zeros(2, 16, 512, 256, device="cuda") for _ in model.blocks]
    with torch.no_grad():
        for number in range(24):
            hidden = model.embedding(torch.zeros(16, 1, dtype=torch.long, device="cuda"))
            for kept, block in zip(cache, model.blocks, strict=True):
                pair = block.joint(hidden)[:, 0, :512].unflatten(1, (2, 256))
                kept[:, :, number] = pair.transpose(0, 1)
                hidden = block(hidden)
            model.head(hidden).argmax(-1)


@program("", "DDP with gradients as views of the buckets")
def views_of_buckets(mended: bool) -> None:
    """Gradients exist once, in the buckets."""
    begin(2)
    model = replicated(Model(layers=6), views=True)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for ids in batches(12, batch=2):
        model(ids).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@program("", "DDP with accumulated gradients")
def accumulated_in_ddp(mended: bool) -> None:
    """Gradients that are accumulated under `no_sync` are no views of the buckets in any case."""
    begin(2)
    model = replicated(Model(layers=32), views=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for number, ids in enumerate(batches(12, batch=1, length=32)):
        is_last = number % 3 == 2
        with nullcontext() if is_last else model.no_sync():
            model(ids).square().mean().backward()
        if is_last:
            optimizer.step()
            optimizer.zero_grad()


@program("", "FSDP of each block")
def sharded_blocks(mended: bool) -> None:
    """Parameters of one block at a time are gathered."""
    begin(8)
    model = Model(layers=12).cuda()
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for ids in batches(8, batch=2):
        model(ids).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


@program("", "a resumed training")
def resumed(mended: bool) -> object:
    """The checkpoint is loaded to the host; momentum and weights are on the device once."""
    file = io.BytesIO()
    torch.save(Model(layers=8).cuda().state_dict(), file)
    file.seek(0)
    model = Model(layers=8).cuda()
    model.load_state_dict(torch.load(file, map_location="cpu"))
    _train(model, 12)
    return model


@program("", "a resumed training whose momentum is loaded to the device")
def resumed_momentum(mended: bool) -> object:
    """The loaded tensors are the optimizer's state from then on."""
    model = Model(layers=8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(next(batches(1, batch=1))).square().mean().backward()
    optimizer.step()
    file = io.BytesIO()
    torch.save(optimizer.state_dict(), file)
    file.seek(0)
    del model, optimizer

    model = Model(layers=8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer.load_state_dict(torch.load(file, map_location="cuda"))
    for ids in batches(12, batch=2):
        model(ids).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return optimizer


@program("", "a model that is loaded as it was saved")
def loaded_model(mended: bool) -> object:
    """The loaded weights are the model's own."""
    file = io.BytesIO()
    torch.save(Model(layers=8).cuda().state_dict(), file)
    file.seek(0)
    model = Model(layers=8)
    model.load_state_dict(torch.load(file, map_location="cuda"), assign=True)
    _train(model, 12)
    return model


@program("", "a generator and a discriminator")
def adversaries(mended: bool) -> None:
    """Two networks that are trained in turn."""
    maker = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 4096)).cuda()
    judge = nn.Sequential(nn.Linear(4096, 1024), nn.ReLU(), nn.Linear(1024, 1)).cuda()
    both = [torch.optim.AdamW(one.parameters(), fused=True) for one in (maker, judge)]
    for _ in range(12):
        made = maker(torch.ones(2048, 64, device="cuda"))
        for optimizer, of_maker in zip(both, (True, False), strict=True):
            optimizer.zero_grad()
            judge(made if of_maker else made.detach()).mean().backward()
            optimizer.step()
        del made


@program("", "batches of many lengths")
def many_lengths(mended: bool) -> None:
    """Each batch has a length of its own."""
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    for number in range(16):
        (ids,) = batches(1, length=64 + 32 * (number * 7 % 8))
        mean_of_hidden(model, ids).backward()
        optimizer.step()
        optimizer.zero_grad()


@program("", "a recurrent network")
def recurrent(mended: bool) -> None:
    """Truncated backpropagation through time, with a detached state."""
    cell = nn.GRUCell(512, 512).cuda()
    optimizer = torch.optim.AdamW(cell.parameters(), fused=True)
    state = torch.zeros(256, 512, device="cuda")
    for _ in range(12):
        state = state.detach()
        for _ in range(8):
            state = cell(torch.ones(256, 512, device="cuda"), state)
        state.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
