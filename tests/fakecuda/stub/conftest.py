"""Pages that are there for one test."""

import pytest

from tests.fakecuda import driver
from tests.fakecuda.driver import PAGE


@pytest.fixture
def page():
    """A handle of one page, given back at the end."""
    handle = driver.create(PAGE)
    yield handle
    driver.release(handle)


@pytest.fixture
def two(page):
    """A page at two addresses."""
    with driver.reserved(4 * PAGE) as address:
        pair = address, address + 2 * PAGE
        for one in pair:
            driver.map_at(one, PAGE, page)
        yield pair
        for one in pair:
            driver.unmap(one, PAGE)
