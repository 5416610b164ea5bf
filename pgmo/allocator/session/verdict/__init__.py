"""The verdict on a run: what pgmo took, beside what plain PyTorch would have reserved."""
