"""pytorch/examples, `dcgan/main.py`: a generator and a discriminator take turns.

Source: https://github.com/pytorch/examples/blob/main/dcgan/main.py
"""

import torch
from torch import Tensor, nn, optim
from torch.utils.data import DataLoader, TensorDataset

from programs.common.running import arguments, cycle, device, finish

given = arguments()
where = device()
batch, width, noise_size = given.choose((8, 16, 100), (2, 4, 8))


def up(before: int, after: int) -> list[nn.Module]:
    """Return layers that double the resolution."""
    turned = nn.ConvTranspose2d(before, after, 4, 2, 1, bias=False)
    return [turned, nn.BatchNorm2d(after), nn.ReLU(True)]


def down(before: int, after: int) -> list[nn.Module]:
    """Return layers that halve the resolution."""
    turned = nn.Conv2d(before, after, 4, 2, 1, bias=False)
    return [turned, nn.BatchNorm2d(after), nn.LeakyReLU(0.2, inplace=True)]


generator = nn.Sequential(
    nn.ConvTranspose2d(noise_size, width * 8, 4, 1, 0, bias=False),
    nn.BatchNorm2d(width * 8),
    nn.ReLU(True),
    *up(width * 8, width * 4),
    *up(width * 4, width * 2),
    *up(width * 2, width),
    nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False),
    nn.Tanh(),
).to(where)
discriminator = nn.Sequential(
    nn.Conv2d(3, width, 4, 2, 1, bias=False),
    nn.LeakyReLU(0.2, inplace=True),
    *down(width, width * 2),
    *down(width * 2, width * 4),
    *down(width * 4, width * 8),
    nn.Conv2d(width * 8, 1, 4, 1, 0, bias=False),
    nn.Sigmoid(),
    nn.Flatten(0),
).to(where)
criterion = nn.BCELoss()
fixed_noise = torch.randn(batch, noise_size, 1, 1, device=where)
optimizer_d = optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
optimizer_g = optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
losses = []


def step(iteration: int, pictures: list[Tensor]) -> None:
    """Step each optimizer once."""
    real = pictures[0].to(where)
    count = real.size(0)
    # Train the discriminator on real and on generated pictures.
    discriminator.zero_grad()
    label = torch.full((count,), 1.0, device=where)
    error_real = criterion(discriminator(real), label)
    error_real.backward()
    noise = torch.randn(count, noise_size, 1, 1, device=where)
    fake = generator(noise)
    label.fill_(0.0)
    error_fake = criterion(discriminator(fake.detach()), label)
    error_fake.backward()
    optimizer_d.step()
    # Train the generator with the updated discriminator.
    generator.zero_grad()
    label.fill_(1.0)
    error = criterion(discriminator(fake), label)
    error.backward()
    optimizer_g.step()
    losses.extend([(error_real + error_fake).item(), error.item()])
    if iteration % 20 == 0:
        losses.append(generator(fixed_noise).detach().mean().item())


loader = DataLoader(
    TensorDataset(torch.randn(6 * batch, 3, 64, 64)), batch_size=batch, shuffle=True
)
cycle(loader, given.steps, step)
finish(given, [generator, discriminator], losses)
