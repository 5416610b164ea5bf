"""Sleep of live tensors: their memory is given back to the card, and restored later."""
