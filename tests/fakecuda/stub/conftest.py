"""Pages of the driver, as fixtures."""

import pytest

from tests.fakecuda import driver
from tests.fakecuda.driver import PAGE


@pytest.fixture
def page():
    """Yield the handle of a page, which is released at the end."""
    handle = driver.create(PAGE)
    yield handle
    driver.release(handle)


@pytest.fixture
def two(page):
    """Yield two addresses at which a page is mapped."""
    with driver.reserved(4 * PAGE) as address:
        pair = address, address + 2 * PAGE
        for one in pair:
            driver.map_at(one, PAGE, page)
        yield pair
        for one in pair:
            driver.unmap(one, PAGE)
