"""Image classification whose pictures grow during training, as in progressive resizing."""

import torch
from torch.nn import functional

from loops import Setting
from loops.loop import BFLOAT16, Loop, adamw, zeros

ITERATIONS_PER_SIDE = 4
GROWTH = 16  # pixels


class GrowingImages(Loop):
    """A ResNet of timm on batches of 24 pictures, channels last, with an average of its weights."""

    def __init__(self, setting: Setting) -> None:
        import timm
        from timm.utils import ModelEmaV3

        super().__init__(setting)
        name, self.batch, self.side = setting.choose(("resnet26d", 24, 96), ("resnet10t", 2, 32))
        with torch.device("cuda"):
            model = timm.create_model(name, drop_path_rate=0.1)
        self.model = model.to(memory_format=torch.channels_last).train()
        self.average = ModelEmaV3(self.model, decay=0.999)
        self.optimizer = adamw([self.model])

    def step(self, iteration: int) -> None:
        side = self.side + GROWTH * (iteration // ITERATIONS_PER_SIDE)
        pictures = zeros(self.batch, 3, side, side, kind=torch.float32)
        pictures = pictures.to(memory_format=torch.channels_last)
        mixed = 0.7 * pictures + 0.3 * pictures.flip(0)
        with torch.autocast("cuda", BFLOAT16):
            logits = self.model(mixed)
            labels = zeros(*logits.shape, kind=torch.float32)
            loss = functional.cross_entropy(logits, labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.average.update(self.model)
