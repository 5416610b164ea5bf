"""Tests of the names of the removed module `pgmo.fit.estimate`."""

import pytest


@pytest.mark.parametrize("name", ["estimate", "estimate_script", "Estimate"])
def test_removed_names_fail_with_what_to_use_instead(name: str) -> None:
    from pgmo.fit import estimate

    with pytest.raises(ImportError, match="pgmo fit --environment"):
        getattr(estimate, name)
