"""Loops whose sizes grow, whose memory is in private pools, or that empty the cache.

Each is a function of a random source and of `small`, and returns the step of an iteration.
"""

import random
from collections.abc import Callable

import torch
from torch import Tensor, nn

Step = Callable[[int], None]

torch.backends.cudnn.enabled = False  # the stub runtime has cuBLAS, but no cuDNN
torch.backends.cuda.enable_cudnn_sdp(False)


def growing_splats(chance: random.Random, small: bool) -> Step:
    """Parameters that are added and pruned, with the optimizer's state."""
    widths = {"position": 3, "colour": 48, "scale": 3, "opacity": 1}
    count = 2_000 if small else 300_000
    values = {name: nn.Parameter(_zeros(count, width)) for name, width in widths.items()}
    groups = [{"params": [one], "name": name} for name, one in values.items()]
    optimizer = torch.optim.Adam(groups, lr=1e-3)

    def exchange(change: Callable[[Tensor], Tensor]) -> None:
        for group in optimizer.param_groups:
            old = group["params"][0]
            state = optimizer.state.pop(old, None)
            new = nn.Parameter(change(old.detach()))
            if state:
                for key in ("exp_avg", "exp_avg_sq"):
                    state[key] = change(state[key])
                optimizer.state[new] = state
            group["params"][0] = values[group["name"]] = new

    def step(iteration: int) -> None:
        rows = values["position"].shape[0]
        seen = chance.randint(rows // 4, rows)
        colour = values["colour"][:seen].view(seen, 16, 3)
        weight = torch.sigmoid(values["opacity"][:seen, 0])
        weight = weight * torch.exp(-values["position"][:seen].square().sum(-1))
        weight = weight * values["scale"][:seen].exp().sum(-1)
        (colour * weight[:, None, None]).sum(1).abs().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if iteration % 2:
            more = chance.randint(rows // 40, rows // 12)
            exchange(lambda one: torch.cat([one, one[:more]]))
            keep = rows + more - chance.randint(0, rows // 50)
            exchange(lambda one: one[:keep].clone())

    return step


def sampled_graphs(chance: random.Random, small: bool) -> Step:
    """A graph network over neighbourhoods that are sampled anew in each iteration."""
    width = 32 if small else 256
    features = _zeros(1_000 if small else 400_000, width)
    layers = nn.ModuleList([nn.Linear(2 * width, width) for _ in range(3)]).cuda()
    optimizer = _adamw(layers)

    def step(_: int) -> None:
        nodes = [16 if small else 512]
        for fan in (10, 8, 4):
            nodes.append(int(nodes[-1] * fan * chance.uniform(0.5, 0.9)))
        hidden = features[torch.arange(nodes[3], device="cuda") % len(features)]
        for at, layer in enumerate(layers):
            source, target = nodes[3 - at], nodes[2 - at]
            edges = int(source * chance.uniform(1.0, 1.6))
            ends = torch.arange(edges, device="cuda")
            summed = _zeros(target, width).index_add(0, ends % target, hidden[ends % source])
            hidden = torch.relu(layer(torch.cat([hidden[:target], summed], 1)))
        _train(hidden.square().mean(), optimizer)

    return step


def curriculum(chance: random.Random, small: bool) -> Step:
    """Batch size and length grow with the iterations."""
    model, optimizer = _transformer(small)

    def step(iteration: int) -> None:
        batch, length = 2 + iteration // 4, min(768, 64 + 32 * iteration)
        for _ in range(chance.randint(1, 3)):
            model(_zeros(batch, length, model.width)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def block_masks(chance: random.Random, small: bool) -> Step:
    """Documents of any length in one row, each attending to itself alone."""
    model, optimizer = _transformer(small)
    total = 128 if small else 1536

    def step(_: int) -> None:
        lengths: list[int] = []
        while sum(lengths) < total:
            lengths.append(min(chance.randint(10, 500), total - sum(lengths)))
        blocks = [torch.ones(one, one, dtype=torch.bool, device="cuda") for one in lengths]
        mask = ~torch.block_diag(*blocks)
        hidden = model(_zeros(1, total, model.width), mask)[0]
        parts = [one.square().mean() for one in hidden.split(lengths)]
        _train(torch.stack(parts).mean(), optimizer)

    return step


def sliding_windows(chance: random.Random, small: bool) -> Step:
    """Patches in training, windows over whole images in evaluation."""
    model = _convolutions(8 if small else 48)
    optimizer = _adamw(model)
    side = 32 if small else 160

    def step(iteration: int) -> None:
        _train(model(_zeros(6, 3, side, side)).square().mean(), optimizer)
        if iteration % 5 != 4:
            return
        model.eval()
        with torch.no_grad():
            for _ in range(2):
                height, width = (side + 16 * chance.randint(2, 20) for _ in range(2))
                image, summed = _zeros(1, 3, height, width), _zeros(3, height, width)
                for top in range(0, height - side + 1, side // 2):
                    for left in range(0, width - side + 1, side // 2):
                        window = model(image[:, :, top : top + side, left : left + side])[0]
                        summed[:, top : top + side, left : left + side] += window
        model.train()

    return step


def growing_images(_: random.Random, small: bool) -> Step:
    """The images' side grows by 16 pixels every four iterations."""
    model = _convolutions(8 if small else 64)
    optimizer = _adamw(model)

    def step(iteration: int) -> None:
        side = 96 + 16 * (iteration // 4)
        batch = 2 if small else 16
        image = _zeros(batch, 3, side, side).to(memory_format=torch.channels_last)
        _train(model(image).square().mean(), optimizer)

    return step


def truncated_backpropagation(chance: random.Random, small: bool) -> Step:
    """A state that is carried over chunks of any length."""
    width = 32 if small else 768
    cell = nn.GRUCell(width, width).cuda()
    optimizer = _adamw(cell)
    carried = [_zeros(64, width)]

    def step(_: int) -> None:
        state = carried[0].detach()
        outputs = []
        for _ in range(chance.randint(8, 60)):
            state = cell(_zeros(64, width), state)
            outputs.append(state)
        carried[0] = state
        _train(torch.stack(outputs).square().mean(), optimizer)

    return step


def evaluation(chance: random.Random, small: bool) -> Step:
    """Training, and evaluations that concatenate what they compute."""
    model, optimizer = _transformer(small)
    head = nn.Linear(model.width, 64 if small else 3000).cuda()

    def step(iteration: int) -> None:
        length = chance.randrange(40, 200)
        _train(head(model(_zeros(8, length, model.width))).square().mean(), optimizer)
        if iteration % 8 != 7:
            return
        model.eval()
        with torch.no_grad():
            gathered = head(model(_zeros(4, 100, model.width)))
            for _ in range(12):
                found = head(model(_zeros(4, chance.randrange(40, 200), model.width)))
                longest = max(gathered.shape[1], found.shape[1])
                joined = found.new_zeros(len(gathered) + len(found), longest, found.shape[2])
                joined[: len(gathered), : gathered.shape[1]] = gathered
                gathered = joined
        model.train()

    return step


def graphs_per_size(_: random.Random, small: bool, *, one_pool: bool = False) -> Step:
    """A CUDA graph for each of seven image sizes."""
    model = _convolutions(8 if small else 32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    pool = torch.cuda.graph_pool_handle() if one_pool else None
    graphs: dict[int, Callable[[Tensor], Tensor]] = {}

    class Tied(nn.Module):
        """The model by another name: what is graphed is changed in place."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, image: Tensor) -> Tensor:
            return model.forward(image)

    def step(iteration: int) -> None:
        side = (32 if small else 128) + 16 * (iteration % 7)
        if side not in graphs:
            sample = (_zeros(4, 3, side, side),)
            graphs[side] = torch.cuda.make_graphed_callables(Tied(), sample, pool=pool)
        graphs[side](_zeros(4, 3, side, side)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)

    return step


def graphs_in_one_pool(chance: random.Random, small: bool) -> Step:
    """The same, and the graphs share a private pool."""
    return graphs_per_size(chance, small, one_pool=True)


def leak(chance: random.Random, small: bool) -> Step:
    """Every output is kept."""
    model, optimizer = _transformer(small)
    kept: list[Tensor] = []

    def step(_: int) -> None:
        output = model(_zeros(4, chance.randrange(40, 300), model.width))
        kept.append(output.detach())
        _train(output.square().mean(), optimizer)

    return step


def cache_emptied(chance: random.Random, small: bool) -> Step:
    """The cache is emptied after every third iteration."""
    model, optimizer = _transformer(small)

    def step(iteration: int) -> None:
        length = chance.randrange(40, 400)
        _train(model(_zeros(8, length, model.width)).square().mean(), optimizer)
        if iteration % 3 == 2:
            torch.cuda.empty_cache()

    return step


def side_stream(chance: random.Random, small: bool) -> Step:
    """Batches are made on a stream of their own and used on the default one."""
    model, optimizer = _transformer(small)
    side = torch.cuda.Stream()

    def step(_: int) -> None:
        with torch.cuda.stream(side):
            batch = _zeros(8, chance.randrange(100, 400), model.width)
        torch.cuda.current_stream().wait_stream(side)
        batch.record_stream(torch.cuda.current_stream())
        _train(model(batch).square().mean(), optimizer)

    return step


def beam_search(chance: random.Random, small: bool) -> Step:
    """Training, then beam search whose keys and values grow and are reordered with the beams."""
    model, optimizer = _transformer(small)
    layers, beams = len(model.layers), 4 * 4

    def step(_: int) -> None:
        _train(model(_zeros(8, chance.randrange(40, 200), model.width)).square().mean(), optimizer)
        with torch.no_grad():
            caches = [_zeros(beams, 0, 2 * model.width) for _ in range(layers)]
            order = torch.zeros(beams, dtype=torch.long, device="cuda")
            for _ in range(chance.randrange(8, 40)):
                model(_zeros(beams, 1, model.width))
                new = _zeros(beams, 1, 2 * model.width)
                caches = [torch.cat([one, new], 1).index_select(0, order) for one in caches]

    return step


def host_average(chance: random.Random, small: bool) -> Step:
    """The weights' moving average is in host memory, and is evaluated in their place."""
    model, optimizer = _transformer(small)
    average = [one.detach().cpu() for one in model.parameters()]

    def step(iteration: int) -> None:
        _train(model(_zeros(8, chance.randrange(40, 300), model.width)).square().mean(), optimizer)
        for mean, one in zip(average, model.parameters(), strict=True):
            mean.lerp_(one.detach().cpu(), 0.1)
        if iteration % 6 != 5:
            return
        trained = [one.detach().clone() for one in model.parameters()]
        with torch.no_grad():
            _assign(model, average)
            model(_zeros(16, chance.randrange(40, 300), model.width))
            _assign(model, trained)

    return step


def _assign(model: nn.Module, values: list[Tensor]) -> None:
    for one, value in zip(model.parameters(), values, strict=True):
        one.copy_(value)


class _Transformer(nn.Module):
    """A few encoder layers."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.width = width
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True) for _ in range(layers)
        )

    def forward(self, hidden: Tensor, mask: Tensor | None = None) -> Tensor:
        for layer in self.layers:
            hidden = layer(hidden, mask)
        return hidden


def _transformer(small: bool) -> tuple[_Transformer, torch.optim.Optimizer]:
    with torch.device("cuda"):
        model = _Transformer(32, 2) if small else _Transformer(512, 6)
    return model, _adamw(model)


def _convolutions(channels: int) -> nn.Module:
    def layer(inputs: int, outputs: int) -> list[nn.Module]:
        return [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU()]

    layers = [*layer(3, channels), *layer(channels, 2 * channels), *layer(2 * channels, 3)]
    return nn.Sequential(*layers).cuda()


def _adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-4)


def _zeros(*shape: int) -> Tensor:
    return torch.zeros(*shape, device="cuda")


def _train(loss: Tensor, optimizer: torch.optim.Optimizer) -> None:
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
