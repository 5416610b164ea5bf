"""Graph network, whose batches have any number of nodes and edges."""

import torch
from torch import Tensor, nn
from torch.nn import functional

from loops import Setting
from loops.loop import Loop, adamw, loaded


class Convolution(nn.Module):
    """Messages along edges, summed at their target nodes (Gilmer et al. 2017)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * width, width), nn.ReLU())
        self.update = nn.Sequential(nn.Linear(2 * width, width), nn.LayerNorm(width), nn.ReLU())

    def forward(self, nodes: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
        """Return node states, shape (nodes, width).

        Args:
            nodes: states, shape (nodes, width).
            sources: index of each edge's source node, shape (edges,).
            targets: index of each edge's target node, shape (edges,).
        """
        sent = self.message(torch.cat([nodes[sources], nodes[targets]], dim=1))
        arrived = torch.zeros_like(nodes).index_add_(0, targets, sent)
        result: Tensor = nodes + self.update(torch.cat([nodes, arrived], dim=1))
        return result


class GraphBatches(Loop):
    """Training on 64 graphs of some hundred nodes, with six convolutions of width 256."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.width, layers, self.graphs = setting.choose((256, 6, 64), (32, 2, 8))
        with torch.device("cuda"):
            self.begin = nn.Linear(32, self.width)
            self.layers = nn.ModuleList(Convolution(self.width) for _ in range(layers))
            self.end = nn.Linear(self.width, 10)
        self.optimizer = adamw([self.begin, self.layers, self.end])

    def step(self, iteration: int) -> None:
        sizes = [int(200 * self.chance.lognormvariate(0.0, 0.7)) + 1 for _ in range(self.graphs)]
        nodes = sum(sizes)
        edges = sum(int(size * self.chance.uniform(2.0, 8.0)) for size in sizes)
        x = self.begin(loaded(nodes, 32, kind=torch.float32))
        sources, targets = loaded(edges), loaded(edges)
        for layer in self.layers:
            x = layer(x, sources, targets)
        pooled = torch.zeros(self.graphs, self.width, device="cuda").index_add_(0, loaded(nodes), x)
        functional.cross_entropy(self.end(pooled), loaded(self.graphs)).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
