"""A loop like the binary segmentation example of segmentation_models.pytorch.

Source: https://github.com/qubvel-org/segmentation_models.pytorch/tree/main/examples
"""

import segmentation_models_pytorch as smp
import torch
from torch.utils.data import DataLoader, TensorDataset

from programs.common.running import arguments, cycle, device, finish

given = arguments()
where = device()
batch, side = given.choose((8, 256), (2, 64))
model = smp.Unet("resnet34", encoder_weights=None, in_channels=3, classes=1).to(where)
criterion = smp.losses.DiceLoss(smp.losses.BINARY_MODE, from_logits=True)
optimizer = torch.optim.Adam(model.parameters(), lr=2e-4)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=given.steps)
images = torch.randn(5 * batch, 3, side, side)
masks = (torch.rand(5 * batch, 1, side, side) > 0.5).float()
loader = DataLoader(TensorDataset(images, masks), batch, shuffle=True)
losses = []


def step(_: int, pair: list[torch.Tensor]) -> None:
    """Train on one batch."""
    image, mask = (one.to(where) for one in pair)
    loss = criterion(model(image), mask)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    scheduler.step()
    losses.append(loss.item())


model.train()
cycle(loader, given.steps, step)
finish(given, model, losses)
