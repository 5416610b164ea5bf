import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pgmo.errors import OptionError
from pgmo.units import format_bytes, parse_bytes


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1536, "1.50 KiB"),
        (24 * 2**30, "24.0 GiB"),
        (2**40 - 1, "1.00 TiB"),
        (999 * 2**20, "999 MiB"),
        (2**60, "1024 PiB"),
        (-1536, "-1.50 KiB"),
    ],
)
def test_format_bytes(count, text):
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("24 GiB", 24 * 2**30),
        ("512MiB", 512 * 2**20),
        ("1.5G", 3 * 2**29),
        ("10gb", 10 * 2**30),
        (".5 KiB", 512),
        ("7", 7),
        (" 7 b ", 7),
        ("5. KiB", 5120),
        ("9007199254740993", 2**53 + 1),
        (12345, 12345),
    ],
)
def test_parse_bytes(text, count):
    assert parse_bytes(text) == count


@pytest.mark.parametrize(
    "text", ["", "GiB", "-1 GiB", "1 XiB", "1e3", "nan", "1 GiB 2", "9" * 400, -1, True]
)
def test_invalid_sizes_are_refused(text):
    with pytest.raises(OptionError, match=r"size"):
        parse_bytes(text)


@given(st.integers(0, 2**60))
@example(1152)
def test_a_printed_size_reads_back_within_half_a_percent(count):
    # Three digits are printed, and sizes are read as whole bytes.
    assert abs(parse_bytes(format_bytes(count)) - count) <= 0.005 * count + 1
