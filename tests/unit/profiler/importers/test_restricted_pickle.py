"""Tests of the reader of pickles, which accepts plain data alone."""

import os
import pickle
import pickletools

import pytest

from pgmo.profiler.importers.torch_memory.restricted_pickle import PickleError, load

SHARED = [1, 2]
PLAIN = {
    "numbers": [0, 255, 256, 65_535, 65_536, -1, 2**31, -(2**31), 2**62, -(2**63), 1.5],
    "text": ["", "N/A", "über", "x" * 300, "\ud800"],
    "others": [None, True, False, (), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
    "long": list(range(2500)),
    "many": {str(number): number for number in range(2500)},
    "shared": [SHARED, SHARED],
    7: {},
}


CALLING = {"GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX"} | {
    "PERSID",
    "BINPERSID",
    "EXT1",
    "EXT2",
    "EXT4",
}


class Evil:
    """An object that calls a function when Python unpickles it."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def as_lists(value):
    """Return a value with lists for tuples, as the reader returns equal stacks as tuples."""
    if isinstance(value, dict):
        return {key: as_lists(own) for key, own in value.items()}
    return [as_lists(own) for own in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_data_comes_back(protocol):
    assert as_lists(load(pickle.dumps(PLAIN, protocol))) == as_lists(PLAIN)


def test_bytes_come_back():
    assert load(pickle.dumps([b"ab", b"c" * 300], 4)) == [b"ab", b"c" * 300]


def test_equal_stacks_become_one():
    frames = [{"line": number} for number in range(3)]
    value = load(pickle.dumps([frames, list(frames), frames[:2], list(frames)], 4))
    assert as_lists(value) == [frames, frames, frames[:2], frames]
    assert value[1] is value[3]


def test_the_hook_replaces_dictionaries_everywhere():
    event = {"action": "alloc", "size": 8}
    value = load(pickle.dumps([event, {"other": 1}, event], 4), lambda d: d.get("action", d))
    assert value == ["alloc", {"other": 1}, "alloc"]


@pytest.mark.parametrize("protocol", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize(("function", "name"), [(os.system, f"{os.name}.system"), (eval, "eval")])
def test_a_global_is_refused_by_name_and_not_called(protocol, function, name, tmp_path):
    ran = tmp_path / "ran"
    text = f"touch {ran}" if function is os.system else f"open({str(ran)!r}, 'w')"
    data = pickle.dumps({"segments": Evil(function, text)}, protocol)
    with pytest.raises(PickleError, match="the global '.*" + name.replace("nt.", "")):
        if protocol < 2:  # its first instruction need not be one that is known here
            data = pickle.dumps(Evil(function, text), protocol)
        load(data)
    assert not ran.exists()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty"),
        (b"\x80\x04", "is cut off: its 2 bytes"),
        (b"hello, this is text", "is not a pickle of protocol 2 or above"),
        (b"\x80\x09N.", "has protocol 9"),
        (b"\x80\x04\x82\x01.", "has the instruction EXT1 at byte 2"),
        (b"\x80\x04N2.", "has the instruction DUP at byte 3"),
        (b"\x80\x04Pabc\n.", "has the instruction PERSID"),
        (b"\x80\x04h\x05.", "is damaged at byte 2"),
        (b"\x80\x04Nu.", "is damaged at byte 3"),
        (b"\x80\x04}(]Nu.", "has a key of type list at byte 6"),
        (b"\x80\x04r\xff\xff\xff\xff.", "is damaged at byte 2"),
        (b"\x80\x04\x8d" + b"\xff" * 8 + b"x", "is cut off"),
        (b"\x80\x04\x8a\xff" + b"\x01" * 255 + b".", "has an integer of 255 bytes"),
        (b"\x80\x04\x8c\x01\xff.", "is damaged at byte 2"),
    ],
)
def test_invalid_pickles_are_refused_with_the_cause(data, message):
    with pytest.raises(PickleError, match=message):
        load(data)


def test_every_cut_and_every_changed_byte_is_an_error_or_plain_data():
    whole = pickle.dumps({"a": [1, {"b": "text", "c": (2, 3)}], "d": 2**40, "e": [1.5, None]}, 4)
    for end in range(1, len(whole)):
        cut = whole[:end]
        with pytest.raises(PickleError, match="is cut off" if cut[-1:] != b"." else ""):
            load(cut)
    for at in range(len(whole)):
        for byte in (0, 0x28, 0x52, 0x63, 0x75, 0x94, 0xFF):
            try:
                load(whole[:at] + bytes([byte]) + whole[at + 1 :])
            except PickleError:
                continue


@pytest.mark.parametrize("name", sorted(CALLING))
def test_no_instruction_that_imports_or_calls_is_obeyed(name):
    (code,) = (op.code.encode("latin-1") for op in pickletools.opcodes if op.name == name)
    with pytest.raises(PickleError, match=f"the global '[a-z]+.[a-z]+'|the instruction {name} at"):
        load(b"\x80\x04\x8c\x02os\x8c\x06system" + code + b"os\nsystem\n.")
