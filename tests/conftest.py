"""What holds for all tests."""

from hypothesis import settings

# Machines are shared and noisy: no test fails for being slow.
settings.register_profile("pgmo", deadline=None)
settings.load_profile("pgmo")
