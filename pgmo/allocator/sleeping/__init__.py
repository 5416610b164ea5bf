"""Sleep and wake: memory that is given back to the card while its tensors are alive."""
