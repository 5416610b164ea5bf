"""A loop like open_clip's training: pairs of images and texts, checkpointing, float16.

Source: https://github.com/mlfoundations/open_clip/blob/main/src/open_clip_train/train.py
"""

import open_clip
import torch
from open_clip.loss import ClipLoss
from torch.utils.data import DataLoader, TensorDataset

from programs.common.running import arguments, cycle, device, finish

given = arguments()
where = device()
batch, name = given.choose((16, "ViT-B-32"), (2, "ViT-S-32-alt"))
model = open_clip.create_model(name, pretrained=None, device=where)
model.set_grad_checkpointing(True)
criterion = ClipLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.2)
scaler = torch.amp.GradScaler(where.type)
images = torch.randn(4 * batch, 3, 224, 224)
texts = torch.randint(49_000, (4 * batch, 77))
loader = DataLoader(TensorDataset(images, texts), batch, shuffle=True)
losses = []


def step(_: int, pair: list[torch.Tensor]) -> None:
    """Train on one batch of pairs."""
    image, text = (one.to(where) for one in pair)
    optimizer.zero_grad()
    with torch.autocast(where.type, dtype=torch.float16):
        loss = criterion(*model(image, text))
    scaler.scale(loss).backward()
    scaler.step(optimizer)
    scaler.update()
    with torch.no_grad():
        model.logit_scale.clamp_(0, 4.6)
    losses.append(loss.item())


model.train()
cycle(loader, given.steps, step)
finish(given, model, losses)
