"""Why a step is captured although there is, or might be, a file of it."""


class UnfitError(Exception):
    """Something cannot be kept, or what was kept does not fit here."""
