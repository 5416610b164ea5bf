import base64
import json
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmo.report.page.packed import Column, encode_integers, pack

LARGEST = 2**53 - 1  # largest exact integer of JavaScript
WHOLE = st.integers(-1, LARGEST)


def unpack(text: str) -> tuple[dict[str, object], dict[str, list[int]]]:
    """Unpack columns as the page does, and return the header and the columns."""
    body = zlib.decompress(base64.b64decode(text))
    length = int.from_bytes(body[:4], "little")
    header = json.loads(body[4 : 4 + length])
    at = 4 + length
    columns = {}
    for column in header["columns"]:
        values, last = [], 0
        for _ in range(column["length"]):
            zigzag, place = 0, 0
            while True:
                byte = body[at]
                at += 1
                zigzag |= (byte & 127) << place
                place += 7
                if byte < 128:
                    break
            value = (zigzag >> 1) ^ -(zigzag & 1)
            if column["delta"]:
                value = last = last + value
            values.append(-1 if value < 0 else value * column["unit"])
        columns[column["name"]] = values
    assert at == len(body)
    return header, columns


@given(st.lists(WHOLE, max_size=30), st.booleans())
def test_packed_columns_unpack_to_their_values(values, delta):
    column = Column("some", np.array(values, np.int64), delta)
    assert unpack(pack({}, [column]))[1] == {"some": values}


@given(st.lists(st.lists(WHOLE, max_size=5), min_size=2, max_size=4))
def test_columns_of_different_lengths_lie_after_one_another(lists):
    columns = [Column(str(i), np.array(values, np.int64)) for i, values in enumerate(lists)]
    found = unpack(pack({"ticks": 3}, columns))
    assert list(found[1].values()) == lists
    assert found[0]["ticks"] == 3


def test_multiples_of_a_unit_take_one_byte_each():
    column = Column("size", np.array([512, 1024, -1, 512 * 60]))
    assert column.unit == 512
    assert len(column.encoded()) == 4


@pytest.mark.parametrize("value", [0, 1, 63, 64, 8191, 8192, LARGEST])
def test_bytes_grow_with_the_number_only(value):
    assert len(encode_integers([value])) == max(1, -(-(2 * value).bit_length() // 7))


def test_nothing_in_it_can_end_a_script():
    text = pack({"name": "</script><!--"}, [])
    assert "<" not in text
    assert unpack(text)[0]["name"] == "</script><!--"
