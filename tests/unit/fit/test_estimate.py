"""Estimates were removed."""

import pytest

from pgmo.errors import RehearsalError


@pytest.mark.parametrize("name", ["estimate", "estimate_script", "Estimate"])
def test_removed_names_fail_with_what_to_use_instead(name: str) -> None:
    from pgmo.fit import estimate

    with pytest.raises(RehearsalError, match="pgmo fit --environment"):
        getattr(estimate, name)
