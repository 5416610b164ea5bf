"""Training that adds parameters every few steps, as Gaussian splatting adds splats."""

import torch
from network import Network, parser, train
from torch import Tensor, nn
from torch.nn import functional

parser.add_argument("--every", type=int, default=10, help="steps between two additions")
given = parser.parse_args()
model = Network(small=given.small).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
points = nn.ParameterList()


def loss_of() -> Tensor:
    """Run a forward pass that adds all points to the scores."""
    tokens = model.tokens(given.batch_size)
    scores = model(tokens)
    for one in points:
        scores = scores + one.mean()
    return functional.cross_entropy(scores.flatten(0, 1), tokens.flatten())


def densify(step: int) -> None:
    """Add points if the step is a multiple of `--every`."""
    if step % given.every == 0:
        more = nn.Parameter(torch.zeros(1 << 20, device="cuda"))
        points.append(more)
        optimizer.add_param_group({"params": [more]})


train(given, model, optimizer, loss_of, densify)
