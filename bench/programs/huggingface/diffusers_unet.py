"""diffusers' `train_unconditional.py`: a U-Net that predicts noise, accelerate, an average.

Source: https://github.com/huggingface/diffusers/tree/main/examples/unconditional_image_generation
"""

import torch
from accelerate import Accelerator
from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel
from diffusers.optimization import get_scheduler
from diffusers.training_utils import EMAModel
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from programs.common.running import arguments, cycle, finish

given = arguments()
batch, side, width = given.choose((2, 32, 32), (2, 8, 32))
model = UNet2DModel(
    sample_size=side,
    layers_per_block=1,
    block_out_channels=(width, 2 * width, 2 * width),
    down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
    up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D"),
    norm_num_groups=16,
)
accelerator = Accelerator()
average = EMAModel(model.parameters(), decay=0.99, model_cls=UNet2DModel, model_config=model.config)
noise_scheduler = DDPMScheduler(num_train_timesteps=100)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.95, 0.999), weight_decay=1e-6)
rates = get_scheduler("cosine", optimizer, num_warmup_steps=5, num_training_steps=given.steps)
loader = DataLoader(TensorDataset(torch.randn(10 * batch, 3, side, side)), batch, shuffle=True)
model, optimizer, loader, rates = accelerator.prepare(model, optimizer, loader, rates)
average.to(accelerator.device)
losses = []


def step(iteration: int, pictures: list[torch.Tensor]) -> None:
    """Step the optimizer, and generate pictures in every 25th iteration."""
    model.train()
    clean = pictures[0]
    noise = torch.randn(clean.shape, device=clean.device)
    moments = torch.randint(0, 100, (clean.shape[0],), device=clean.device)
    noisy = noise_scheduler.add_noise(clean, noise, moments)
    with accelerator.accumulate(model):
        predicted = model(noisy, moments).sample
        loss = functional.mse_loss(predicted.float(), noise.float())
        accelerator.backward(loss)
        if accelerator.sync_gradients:
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        rates.step()
        optimizer.zero_grad()
    if accelerator.sync_gradients:
        average.step(model.parameters())
    losses.append(loss.detach().item())
    if iteration % 25 == 24:
        sample()


def sample() -> None:
    """Generate pictures with the average's weights, as the script does after some epochs."""
    network = accelerator.unwrap_model(model)
    average.store(network.parameters())
    average.copy_to(network.parameters())
    pipeline = DDPMPipeline(unet=network, scheduler=noise_scheduler)
    pipeline.set_progress_bar_config(disable=True)
    made = pipeline(batch_size=2, num_inference_steps=4, output_type="np").images
    losses.append(made.mean())
    average.restore(network.parameters())


cycle(loader, given.steps, step)
finish(given, accelerator.unwrap_model(model), losses)
