"""Training with a running average of the weights on the card."""

import torch
from network import Network, parser, train

given = parser.parse_args()
model = Network(small=given.small).cuda()
average = torch.optim.swa_utils.AveragedModel(model)
train(given, model, after=lambda step: average.update_parameters(model))
