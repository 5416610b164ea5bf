"""Reader for pickles of plain data; it never looks up or calls a name from the file.

A pickle is a program for a small stack machine. The machine of this module lacks the instructions
that import, call or build objects. The other instructions make numbers, text, bytes, lists, tuples
and dictionaries.

The reader also saves memory: Python's unpickler makes a dictionary of 350 bytes for an event that
takes 100 bytes in the file. Here a hook replaces each dictionary as soon as the dictionary is
complete, as in `json.load`.

    }  (  'action' 'alloc' 'addr' 4096 ...  u      bytes
    {}   {"action": "alloc", "addr": 4096}         hook(...) -> row 7
                                        stack: 7   memo: 7, so later references find it too

The file may be malicious. A few hundred bytes can describe a tree of 2**60 leaves, which must not
be traversed, printed or hashed. So keys must be texts or integers, and the data must have limited
depth and no cycles. A list takes 64 bytes of memory but only one byte in the file. So the number
of containers is limited in proportion to the file's size.
"""

import gc
import re
import struct
from collections.abc import Callable
from typing import Any, Final, NoReturn

_PROTO: Final = 0x80
_MOST_INTEGER = 64  # Bytes.
_MOST_KEY: Final = 2**63  # Above it, any number of different integers can have the same hash.
_MOST_DEPTH: Final = 64  # A snapshot has nine levels.
_FEW: Final = 1024  # Number of containers that a file of any size may have.
_APART: Final = 8  # Minimum bytes of the file per container beyond `_FEW`. Snapshots have twenty.
_CONTAINERS: Final = frozenset((dict, list, tuple))
_TEXT: Final = {str}
_DAMAGE = (IndexError, ValueError, TypeError, AttributeError, OverflowError, struct.error)
_GETS = re.compile(rb"\]\x94\(((?:h.|j.{4})++)e(?!\()", re.DOTALL)
_ONE_GET = re.compile(rb"h(.)|j(.{4})", re.DOTALL)
_PLAIN: Final = {0x4E: None, 0x88: True, 0x89: False}
_SIZES: Final = {
    0x8C: (1, "text"),  # SHORT_BINUNICODE
    0x58: (4, "text"),  # BINUNICODE
    0x8D: (8, "text"),  # BINUNICODE8
    0x43: (1, "bytes"),  # SHORT_BINBYTES
    0x42: (4, "bytes"),  # BINBYTES
    0x8E: (8, "bytes"),  # BINBYTES8
    0x8A: (1, "integer"),  # LONG1
    0x8B: (4, "integer"),  # LONG4
}


class PickleError(ValueError):
    """Error for a pickle that is damaged or not plain data. The message has no file name."""


def load(data: bytes, hook: Callable[[dict[Any, Any]], Any] | None = None) -> Any:
    r"""Read a pickle of plain data; bytes after its end are ignored.

    Args:
        data: the pickle, protocol 2 to 5.
        hook: called with each dictionary that is not empty; its result replaces the dictionary. The
            hook sees only the first thousand items of a larger dictionary.

    Returns:
        The data. A list that contains only references to earlier objects, such as a call stack, may
        become a tuple. Equal lists may become the same tuple.

    Raises:
        PickleError: when the pickle is damaged or cut off, is not plain data, or would take more
            time or memory than its size justifies.
    """
    if not data:
        raise PickleError("is empty; save it again")
    machine = _Machine(data, hook)
    collecting = gc.isenabled()
    gc.disable()  # The collector would scan millions of objects repeatedly and find nothing.
    try:
        value = machine.run()
        _check_depth(value)
        return value
    except PickleError:
        raise
    except _DAMAGE as error:
        # A cut-off pickle lacks its end, or an operand of up to eight bytes.
        if machine.at >= len(data) or (len(data) - machine.at <= 8 and data[-1:] != b"."):
            raise PickleError(
                f"is cut off: its {len(data)} bytes end in the middle of the data; save it again"
            ) from error
        if data[0] != _PROTO:
            raise PickleError("is not a pickle of protocol 2 or above; check the file") from error
        raise PickleError(f"is damaged at byte {machine.at}; save it again") from error
    finally:
        if collecting:
            gc.enable()


class _Machine:
    def __init__(self, data: bytes, hook: Callable[[dict[Any, Any]], Any] | None) -> None:
        self.data = data
        self.hook = hook
        self.at = 0
        self.memo: list[Any] = []
        self.texts: dict[bytes, str] = {}
        self.stacks: dict[bytes, tuple[Any, ...]] = {}
        # Memo slots of the dictionaries that the hook has not processed yet, by `id`.
        self.open: dict[int, int] = {}
        self.containers = 0
        self.most = _FEW + len(data) // _APART

    def run(self) -> Any:
        """Execute all instructions and return the data. The common ones are inline for speed."""
        data, memo, texts, hook = self.data, self.memo, self.texts, self.hook
        stack: list[Any] = []
        outer: list[list[Any]] = []  # Stacks below the marks.
        at, end = 0, len(data)
        unpack_int, unpack_uint = struct.Struct("<i").unpack_from, struct.Struct("<I").unpack_from
        while at < end:
            code = data[at]
            self.at = at
            if code == 0x68:  # BINGET
                stack.append(memo[data[at + 1]])
                at += 2
            elif code == 0x6A:  # LONG_BINGET
                stack.append(memo[unpack_uint(data, at + 1)[0]])
                at += 5
            elif code == 0x94:  # MEMOIZE
                memo.append(stack[-1])
                at += 1
            elif code == 0x8A:  # LONG1
                length = data[at + 1]
                at += 2 + length
                if at > end or length > _MOST_INTEGER:
                    self._too_long("integer", length, at)
                stack.append(int.from_bytes(data[at - length : at], "little", signed=True))
            elif code == 0x4B:  # BININT1
                stack.append(data[at + 1])
                at += 2
            elif code == 0x4D:  # BININT2
                stack.append(data[at + 1] | data[at + 2] << 8)
                at += 3
            elif code == 0x4A:  # BININT
                stack.append(unpack_int(data, at + 1)[0])
                at += 5
            elif code == 0x7D:  # EMPTY_DICT
                self._count()
                made: Any = {}
                stack.append(made)
                at += 1
                if data[at] == 0x94:  # MEMOIZE nearly always follows.
                    self.open[id(made)] = len(memo)
                    memo.append(made)
                    at += 1
            elif code == 0x28:  # MARK
                if len(outer) == _MOST_DEPTH:
                    raise _too_deep()
                outer.append(stack)
                stack = []
                at += 1
            elif code == 0x75 or code == 0x73:  # SETITEMS, SETITEM
                if code == 0x75:
                    items = stack
                    stack = outer.pop()
                else:
                    items, stack[-2:] = stack[-2:], []
                target = stack[-1]
                if type(target) is not dict or len(items) % 2:
                    raise TypeError("items of no dictionary")
                keys = items[::2]
                if set(map(type, keys)) != _TEXT:
                    self._check_keys(keys)
                first = not target
                target.update(zip(keys, items[1::2], strict=True))
                if first and hook is not None:
                    slot = self.open.pop(id(target), None)
                    made = hook(target)
                    if made is not target:
                        stack[-1] = made
                        if slot is not None:
                            memo[slot] = made
                at += 1
            elif code == 0x8C:  # SHORT_BINUNICODE
                length = data[at + 1]
                at += 2 + length
                if at > end:
                    self._too_long("text", length, at)
                raw = data[at - length : at]
                text = texts.get(raw)
                if text is None:
                    text = texts[raw] = str(raw, "utf-8", "surrogatepass")
                stack.append(text)
            elif code == 0x5D:  # EMPTY_LIST
                known = _GETS.match(data, at)
                if known is None:
                    self._count()
                    stack.append([])
                    at += 1
                else:
                    stack.append(self._stack_of(known[1]))
                    memo.append(stack[-1])
                    at = known.end()
            elif code == 0x65:  # APPENDS
                items = stack
                stack = outer.pop()
                _list(stack[-1]).extend(items)
                at += 1
            elif code == 0x2E:  # STOP
                (value,) = stack
                if outer:
                    raise ValueError("marks are left")
                return value
            elif code == 0x74:  # TUPLE
                self._count()
                items = stack
                stack = outer.pop()
                stack.append(tuple(items))
                at += 1
            else:
                at = self._rare(code, at, stack)
        self.at = end
        raise IndexError("no end")

    def _stack_of(self, gets: bytes) -> tuple[Any, ...]:
        """Return a list of memo references as a tuple; equal bytes give the same tuple.

        This is safe, because no memo slot changes after a list of references refers to it. The slot
        holds a complete object, which the hook has already processed.
        """
        known = self.stacks.get(gets)
        if known is None:
            self._count()
            memo = self.memo
            known = self.stacks[gets] = tuple(
                memo[short[0] if short else int.from_bytes(long, "little")]
                for short, long in _ONE_GET.findall(gets)
            )
        return known

    def _rare(self, code: int, at: int, stack: list[Any]) -> int:
        """Execute one rare instruction and return the position of the next instruction."""
        data = self.data
        if code in _PLAIN:
            stack.append(_PLAIN[code])
            return at + 1
        if code in _SIZES:
            return self._sized(code, at, stack)
        if code == _PROTO:
            if data[at + 1] > 5:
                raise PickleError(f"has protocol {data[at + 1]}; up to 5 can be read")
            return at + 2
        if code == 0x95:  # FRAME
            return at + 9
        if code == 0x61:  # APPEND
            item = stack.pop()
            _list(stack[-1]).append(item)
            return at + 1
        if code == 0x47:  # BINFLOAT
            stack.append(struct.unpack_from(">d", data, at + 1)[0])
            return at + 9
        if code in (0x71, 0x72):  # BINPUT, LONG_BINPUT
            width = 1 if code == 0x71 else 4
            self._put(int.from_bytes(data[at + 1 : at + 1 + width], "little"), stack[-1])
            return at + 1 + width
        if code == 0x29:  # EMPTY_TUPLE
            stack.append(())
            return at + 1
        if 0x85 <= code <= 0x87:  # TUPLE1, TUPLE2, TUPLE3
            count = code - 0x84
            if len(stack) < count:
                raise IndexError("too few items")
            self._count()
            stack[-count:] = [tuple(stack[-count:])]
            return at + 1
        raise self._refusal(code, at, stack)

    def _sized(self, code: int, at: int, stack: list[Any]) -> int:
        """Push a text, bytes or an integer that follows its length."""
        width, what = _SIZES[code]
        first = at + 1 + width
        length = int.from_bytes(self.data[at + 1 : first], "little")
        if first + length > len(self.data) or (what == "integer" and length > _MOST_INTEGER):
            self._too_long(what, length, first + length)
        raw = self.data[first : first + length]
        if what == "text":
            stack.append(str(raw, "utf-8", "surrogatepass"))
        elif what == "bytes":
            stack.append(raw)
        else:
            stack.append(int.from_bytes(raw, "little", signed=True))
        return first + length

    def _too_long(self, what: str, length: int, end: int) -> NoReturn:
        if end > len(self.data):
            self.at = len(self.data)
            raise IndexError("cut off")
        at = f"{length} bytes at byte {self.at}, and the most is {_MOST_INTEGER}"
        raise PickleError(f"has an {what} of {at}; do not trust this file")

    def _put(self, slot: int, value: Any) -> None:
        if slot == len(self.memo):
            if type(value) is dict and not value:
                self.open[id(value)] = slot
            self.memo.append(value)
        elif slot < len(self.memo):
            raise ValueError("a slot of the memo is used twice")
        else:
            raise ValueError("slots of the memo are left out")

    def _count(self) -> None:
        """Count a container, and raise PickleError if the file has too many for its size."""
        self.containers += 1
        if self.containers > self.most:
            raise PickleError(
                f"has more than {self.most} lists, tuples and dictionaries in {len(self.data)} "
                "bytes; a memory snapshot has less than half as many: do not trust this file"
            )

    def _check_keys(self, keys: list[Any]) -> None:
        """Reject keys that are slow to hash, and integers so large that many have the same hash."""
        for key in keys:
            if type(key) is not str and type(key) is not int:
                raise PickleError(
                    f"has a key of type {type(key).__name__} at byte {self.at}; keys are texts or "
                    "integers: do not trust this file"
                )
            if type(key) is int and not -_MOST_KEY <= key < _MOST_KEY:
                raise PickleError(
                    f"has a key of {key.bit_length()} bits at byte {self.at}, and the most is 63; "
                    "do not trust this file"
                )

    def _refusal(self, code: int, at: int, stack: list[Any]) -> ValueError:
        """Return the error for an instruction that plain data never needs."""
        name = None
        if code in (0x63, 0x69):  # GLOBAL, INST
            module, attribute = self.data[at + 1 : at + 1025].split(b"\n")[:2]
            name = f"{module.decode('utf-8', 'replace')}.{attribute.decode('utf-8', 'replace')}"
        elif code == 0x93 and [type(part) for part in stack[-2:]] == [str, str]:  # STACK_GLOBAL
            name = f"{stack[-2][:200]}.{stack[-1][:200]}"
        if name is not None:
            return PickleError(
                f"asks for the global {name[:200]!r}; a memory snapshot is plain data and never "
                "does: do not open this file with Python's pickle"
            )
        if self.data[0] != _PROTO:
            return ValueError("no pickle")
        from pickletools import opcodes

        known = next((op for op in opcodes if ord(op.code) == code), None)
        if known is None:
            return ValueError("no instruction")
        return PickleError(
            f"has the instruction {known.name} at byte {at}, which plain data never needs; do not "
            "open this file with Python's pickle"
        )


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise TypeError("items of no list")
    return value


def _too_deep() -> PickleError:
    return PickleError(
        f"has containers inside of containers, more than {_MOST_DEPTH} deep; a memory snapshot has "
        "less than ten levels: do not trust this file"
    )


def _check_depth(value: Any) -> None:
    """Reject data that contains itself or is too deep. Each container is visited once."""
    height: dict[int, int] = {}  # Height of each finished container, by identity.
    above: set[int] = set()  # Containers being visited.
    todo = [value] if type(value) in _CONTAINERS else []
    while todo:
        top = todo[-1]
        if id(top) in height:  # The container occurs twice.
            todo.pop()
            continue
        items = top.values() if type(top) is dict else top
        inner = [own for own in items if type(own) in _CONTAINERS]
        if id(top) not in above:
            above.add(id(top))
            if len(above) > _MOST_DEPTH or any(id(own) in above for own in inner):
                raise _too_deep()
            todo += inner
            continue
        height[id(top)] = 1 + max((height[id(own)] for own in inner), default=0)
        above.discard(id(top))
        todo.pop()
        if len(above) + height[id(top)] > _MOST_DEPTH:
            raise _too_deep()
