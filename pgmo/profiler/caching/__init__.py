"""What PyTorch's caching allocator reserves, without a card: settings, and the native model."""
