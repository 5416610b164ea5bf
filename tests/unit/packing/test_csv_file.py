import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pgmo.errors import FileError
from pgmo.packing.csv_file import read_csv, write_csv
from pgmo.packing.planner import plan
from pgmo.packing.solving.result import Packing
from pgmo.packing.validator import validate

GOOD = "id,lower,upper,size\na,0,2,64\nb,1,3,32\n"


@pytest.fixture
def given_text(tmp_path):
    def write(text: str | bytes):
        path = tmp_path / "blocks.csv"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def columns(path):
    problem = read_csv(path).problem
    return problem.lower.tolist(), problem.upper.tolist(), problem.size.tolist()


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        GOOD.replace("\n", "\r\n"),
        GOOD.rstrip(),
        "\ufeff" + GOOD,
        "\n".join(["size,id,note,upper,lower", "64,a,x,2,0", "32,b,,3,1"]),
        "\n".join(["id , lower, upper, size", "a, 0, 2, 64", "", " , ,", "b,1,3,32", ""]),
        '"id","lower","upper","size"\n"a, the first","0","2","64"\nb,1,3,32\n',
        "\n".join(["id,lower,upper,size,alignment", "a,0,2,64,1", "b,1,3,32,", ""]),
    ],
)
def test_forms_of_one_table(given_text, text):
    assert columns(given_text(text)) == ([0, 1], [2, 3], [64, 32])
    assert read_csv(given_text(text)).problem.alignment == 1


@pytest.mark.parametrize(
    ("alignments", "expected"), [((64, 64), 64), ((1, 64), 64), ((4, 6), 12), (("", 32), 32)]
)
def test_one_alignment_that_suits_all_rows(given_text, alignments, expected):
    one, two = alignments
    text = f"id,lower,upper,size,alignment\na,0,2,10,{one}\nb,1,3,10,{two}\n"
    problem = read_csv(given_text(text)).problem
    assert problem.alignment == expected
    assert set(plan(problem).offset % expected) == {0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: no column 'id' in ''; begin with a header line id,lower,upper,size"),
        ("a,0,2,64\n", "line 1: no column 'id' in 'a,0,2,64'; begin with a header line"),
        ("id,lower,upper\n", "line 1: no column 'size' in 'id,lower,upper'"),
        ("id,lower,upper,size,size\n", "line 1: 2 columns 'size'; keep one"),
        (GOOD + "c,0,1\n", "line 4: 'c,0,1' has 3 cells of 4; correct this line"),
        (GOOD + "c,0,1,big\n", "line 4: size is 'big', not a whole number; correct this line"),
        (GOOD + "c,0,1,\n", "line 4: size is '', not a whole number"),
        (GOOD + "c,0,1,1.5\n", "line 4: size is '1.5', not a whole number"),
        (GOOD + "c,0,1,1_0\n", "line 4: size is '1_0', not a whole number"),
        (GOOD + "c,0,1,0\n", r"line 4: size is 0, must be from 1 to 2\*\*62"),
        (GOOD + "c,-1,1,8\n", r"line 4: lower is -1, must be from 0 to 2\*\*62"),
        (GOOD + f"c,0,{2**63},8\n", "line 4: upper is 9223372036854775808, must be"),
        (GOOD + "\n\nc,5,4,8\n", "line 6: upper is 4, not above lower, which is 5"),
        (GOOD.replace("\n", "\r\n") + "c,0,1,x\r\n", "line 4: size is 'x'"),
        (GOOD + '"c,0,1,8\n', "line 4: unexpected end of data; correct this line"),
        (GOOD.replace("size", "size,alignment") + "c,0,1,8,0\n", "line 4: alignment is 0, must be"),
        (
            GOOD.replace("size", "size,alignment") + f"c,0,1,8,{2**41}\n",
            "line 4: alignment is 2199",
        ),
        (
            GOOD + f"c,0,1,{2**62}\n",
            r"line 4: size is 46\d*: the sizes add up to 46\d*, beyond 2\*\*62; correct this",
        ),
        (b"id,lower,upper,size\n\xff", r"is not UTF-8 text \(byte 20 is 0xff\); convert the file"),
    ],
)
def test_invalid_tables_are_refused_with_the_place(given_text, text, message):
    path = given_text(text)
    with pytest.raises(FileError, match=message) as caught:
        read_csv(path)
    assert str(caught.value).startswith(str(path))


def test_paths_that_are_no_file(tmp_path):
    for path, message in (
        (tmp_path, "is not a regular file"),
        (tmp_path / "no.csv", "cannot be read"),
        (tmp_path / "\0", "cannot be read"),
    ):
        with pytest.raises(FileError, match=message):
            read_csv(path)


def test_old_offsets_are_replaced(given_text, tmp_path):
    text = "id,offset,lower,upper,size\na,999,0,2,64\nb,999,1,3,32\n"
    write_csv(read_csv(given_text(text)), np.array([32, 0]), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text() == text.replace("999", "32", 1).replace("999", "0")


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 2**40), st.integers(1, 2**40), st.integers(1, 2**50)), max_size=8
    )
)
def test_written_tables_can_be_read(tmp_path_factory, rows):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    lines = [f"{i},{low},{low + life},{size}" for i, (low, life, size) in enumerate(rows)]
    path.write_text("\n".join(["id,lower,upper,size", *lines]))
    table = read_csv(path)
    write_csv(table, plan(table.problem, effort="fast").offset, path)
    again = read_csv(path)
    assert columns(path) == tuple(
        column.tolist() for column in (table.problem.lower, table.problem.upper, table.problem.size)
    )
    assert again.header == (*table.header, "offset")


def test_a_packing_as_a_plan_keeps_its_proof_and_is_valid(given_text):
    packing = plan(read_csv(given_text(GOOD)).problem)
    assert isinstance(packing, Packing)
    made = packing.as_plan()
    validate(made)
    assert (made.arena, made.bound, made.optimal, made.trace) == (96, 96, True, packing.trace)


def test_cells_beyond_the_header_are_kept(given_text, tmp_path):
    table = read_csv(given_text("id,lower,upper,size\na,0,2,64,note,more\nb,1,3,32\n"))
    write_csv(table, np.array([32, 0]), tmp_path / "out.csv")
    assert (tmp_path / "out.csv").read_text().splitlines()[1:] == [
        "a,0,2,64,32,note,more",
        "b,1,3,32,0",
    ]
