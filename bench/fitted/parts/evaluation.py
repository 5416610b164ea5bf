"""Training with evaluations, whose batches are larger, and which may keep all their scores."""

import torch
from network import Network, parser, train
from torch import Tensor

parser.add_argument("--every", type=int, default=25, help="steps between two evaluations")
parser.add_argument("--collect", action="store_true", help="keep scores instead of words")
given = parser.parse_args()
model = Network(small=given.small).cuda()


def evaluate(step: int) -> None:
    """Evaluate the model if the step is a multiple of `--every`."""
    if step % given.every:
        return
    results: list[Tensor] = []
    model.eval()
    with torch.no_grad():
        for _ in range(4):
            scores = model(model.tokens(6 * given.batch_size))
            results.append(scores if given.collect else scores.argmax(-1))
    model.train()


train(given, model, after=evaluate)
