"""Optimizers without state, and with state of up to several times the parameters' memory."""

import torch
from network import Network, parser, train

OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=1e-3),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9),
    "adafactor": lambda parameters: torch.optim.Adafactor(parameters, lr=1e-4),
    "rmsprop": lambda parameters: torch.optim.RMSprop(parameters, momentum=0.9, centered=True),
    "amsgrad": lambda parameters: torch.optim.Adam(parameters, amsgrad=True),
}
parser.add_argument("--optimizer", choices=OPTIMIZERS, default="sgd")
given = parser.parse_args()
model = Network(small=given.small).cuda()
train(given, model, OPTIMIZERS[given.optimizer](model.parameters()))
