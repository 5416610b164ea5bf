"""What the driver is told."""

from pgmo.allocator.adapters.managed_hints import Hints


def test_what_is_told(driver):
    hints = Hints(1)
    hints.keep_on_device(4096, 512)
    hints.keep_on_host(8192, 1024)
    hints.prefetch(4096, 512, to_device=True)
    hints.prefetch(8192, 1024, to_device=False)
    assert driver.told == [
        ("prefer", 4096, 512, "device 1"),
        ("prefer", 8192, 1024, "host"),
        ("read by", 8192, 1024, "device 1"),
        ("prefetch", 4096, 512, "device 1"),
        ("prefetch", 8192, 1024, "host"),
    ]
    assert hints.note == ""


def test_the_first_refusal_ends_all_advice(driver):
    hints = Hints(0)
    driver.result = 1
    hints.prefetch(4096, 512, to_device=True)
    assert hints.note == "unified memory is not advised any more: cuMemPrefetchAsync failed with 1"
    hints.keep_on_device(4096, 512)
    assert len(driver.told) == 1
