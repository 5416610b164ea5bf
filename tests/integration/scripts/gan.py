"""Training with two optimizers: several steps of the critic, then one of the generator."""

import sys

import torch
from torch import nn

from tests.same_bits import bits

STEPS, CRITIC_STEPS = int(sys.argv[1]), int(sys.argv[2])


def network(first, last):
    return nn.Sequential(nn.Linear(first, 64), nn.LeakyReLU(0.2), nn.Linear(64, last))


torch.manual_seed(0)
generator, critic = network(8, 32), network(32, 1)
generator_optimizer = torch.optim.Adam(generator.parameters(), lr=1e-3)
critic_optimizer = torch.optim.RMSprop(critic.parameters(), lr=1e-3)
for _ in range(STEPS):
    for _ in range(CRITIC_STEPS):
        critic_optimizer.zero_grad()
        with torch.no_grad():
            fake = generator(torch.randn(16, 8))
        loss = critic(fake).mean() - critic(torch.randn(16, 32)).mean()
        loss.backward()
        critic_optimizer.step()
        print("critic", loss.item().hex())
    generator_optimizer.zero_grad()
    loss = -critic(generator(torch.randn(16, 8))).mean()
    loss.backward()
    generator_optimizer.step()
    print("generator", loss.item().hex())
print(bits([*generator.parameters(), *critic.parameters()]))
