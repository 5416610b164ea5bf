"""What a step needs of a card, from tensors without storage: no GPU, no CUDA build of torch."""
