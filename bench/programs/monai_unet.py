"""A loop like MONAI's spleen tutorial: a 3D U-Net, with Dice loss and cross entropy.

Source: https://github.com/Project-MONAI/tutorials/tree/main/3d_segmentation
"""

import torch
from monai.losses import DiceCELoss
from monai.networks.layers import Norm
from monai.networks.nets import UNet
from torch.utils.data import DataLoader, TensorDataset

from programs.common.running import arguments, cycle, device, finish

given = arguments()
where = device()
batch, side = given.choose((2, 96), (1, 32))
model = UNet(
    spatial_dims=3,
    in_channels=1,
    out_channels=2,
    channels=(16, 32, 64, 128, 256),
    strides=(2, 2, 2, 2),
    num_res_units=2,
    norm=Norm.BATCH,
).to(where)
criterion = DiceCELoss(to_onehot_y=True, softmax=True)
optimizer = torch.optim.Adam(model.parameters(), 1e-4)
volumes = torch.randn(4 * batch, 1, side, side, side)
labels = torch.randint(2, (4 * batch, 1, side, side, side))
loader = DataLoader(TensorDataset(volumes, labels), batch, shuffle=True)
losses = []


def step(_: int, pair: list[torch.Tensor]) -> None:
    """Train on one batch of patches."""
    inputs, expected = (one.to(where) for one in pair)
    optimizer.zero_grad()
    loss = criterion(model(inputs), expected)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())


model.train()
cycle(loader, given.steps, step)
finish(given, model, losses)
