"""Programs of transformers, trl, accelerate and diffusers."""
