"""PyTorch-GAN, `wgan_gp.py`: five steps of the critic per step of the generator, penalties.

Source: https://github.com/eriklindernoren/PyTorch-GAN
"""

import torch
from torch import Tensor, autograd, nn, optim
from torch.utils.data import DataLoader, TensorDataset

from programs.common.running import arguments, cycle, device, finish

given = arguments()
where = device()
batch, side, noise_size, critics = given.choose((64, 32, 100, 5), (4, 8, 8, 2))


def block(before: int, after: int, *, normalize: bool = True) -> list[nn.Module]:
    """Return a layer of the generator."""
    layers: list[nn.Module] = [nn.Linear(before, after)]
    if normalize:
        layers.append(nn.BatchNorm1d(after, 0.8))
    return [*layers, nn.LeakyReLU(0.2, inplace=True)]


generator = nn.Sequential(
    *block(noise_size, 128, normalize=False),
    *block(128, 256),
    *block(256, 512),
    *block(512, 1024),
    nn.Linear(1024, side * side),
    nn.Tanh(),
    nn.Unflatten(1, (1, side, side)),
).to(where)
critic = nn.Sequential(
    nn.Flatten(),
    nn.Linear(side * side, 512),
    nn.LeakyReLU(0.2, inplace=True),
    nn.Linear(512, 256),
    nn.LeakyReLU(0.2, inplace=True),
    nn.Linear(256, 1),
).to(where)
optimizer_g = optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
optimizer_d = optim.Adam(critic.parameters(), lr=2e-4, betas=(0.5, 0.999))
losses = []


def gradient_penalty(real: Tensor, fake: Tensor) -> Tensor:
    """Return the penalty on gradients between real and fake whose norm is not one."""
    alpha = torch.rand(real.size(0), 1, 1, 1, device=where)
    between = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    judged = critic(between)
    (gradients,) = autograd.grad(
        outputs=judged,
        inputs=between,
        grad_outputs=torch.ones_like(judged),
        create_graph=True,
        retain_graph=True,
    )
    return ((gradients.view(gradients.size(0), -1).norm(2, dim=1) - 1) ** 2).mean()


def step(iteration: int, pictures: list[Tensor]) -> None:
    """Train the critic, and the generator in every `critics`-th iteration."""
    real = pictures[0].to(where)
    optimizer_d.zero_grad()
    noise = torch.randn(real.size(0), noise_size, device=where)
    fake = generator(noise)
    penalty = gradient_penalty(real, fake.detach())
    loss = -critic(real).mean() + critic(fake).mean() + 10 * penalty
    loss.backward()
    optimizer_d.step()
    optimizer_g.zero_grad()
    if iteration % critics == 0:
        fake = generator(noise)
        loss_g = -critic(fake).mean()
        loss_g.backward()
        optimizer_g.step()
        losses.extend([loss.item(), loss_g.item()])


data = TensorDataset(torch.randn(8 * batch, 1, side, side))
cycle(DataLoader(data, batch_size=batch, shuffle=True), given.steps * critics, step)
finish(given, [generator, critic], losses)
