"""A loop like timm's `train.py`: a ConvNeXt, mixup, an average of the weights, validation.

Source: https://github.com/huggingface/pytorch-image-models/blob/main/train.py
"""

import numpy as np
import timm
import torch
from timm.data.mixup import Mixup
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3
from torch.utils.data import DataLoader, TensorDataset

from programs.common.running import arguments, device, finish

given = arguments()
np.random.seed(0)  # noqa: NPY002 - timm draws its mixtures from this generator
where = device()
batch, side, classes = given.choose((4, 64, 10), (2, 32, 10))
model = timm.create_model("convnext_atto", num_classes=classes, drop_path_rate=0.1).to(where)
average = ModelEmaV3(model, decay=0.99)
mixed = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, label_smoothing=0.1, num_classes=classes)
optimizer = create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
scheduler = CosineLRScheduler(optimizer, t_initial=given.steps, warmup_t=5, t_in_epochs=False)
criterion, judged = SoftTargetCrossEntropy(), torch.nn.CrossEntropyLoss()


def pictures(count: int) -> TensorDataset:
    """Return random pictures and labels."""
    return TensorDataset(torch.randn(count, 3, side, side), torch.randint(classes, (count,)))


train_loader = DataLoader(pictures(20 * batch), batch, shuffle=True, drop_last=True)
test_loader = DataLoader(pictures(3 * batch + 2), batch)
losses, steps = [], 0
while steps < given.steps:
    model.train()
    for images, targets in train_loader:
        images, targets = mixed(images.to(where), targets.to(where))
        loss = criterion(model(images), targets)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        average.update(model)
        steps += 1
        scheduler.step_update(steps)
        losses.append(loss.item())
        if steps == given.steps:
            break
    model.eval()
    with torch.no_grad():
        for images, targets in test_loader:
            losses.append(judged(model(images.to(where)), targets.to(where)).item())
finish(given, [model, average.module], losses)
