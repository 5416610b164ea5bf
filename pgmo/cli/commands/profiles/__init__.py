"""Commands that read profiles and plans."""
