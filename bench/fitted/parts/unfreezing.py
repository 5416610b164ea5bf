"""Training in which half of the layers is frozen until the middle of the run."""

from network import Network, parser, train

given = parser.parse_args()
model = Network(small=given.small).cuda()
frozen = model.layers[: len(model.layers) // 2].requires_grad_(False)


def unfreeze(step: int) -> None:
    """Train all layers from the middle of the run on."""
    if step == given.steps // 2:
        frozen.requires_grad_(True)


train(given, model, after=unfreeze)
