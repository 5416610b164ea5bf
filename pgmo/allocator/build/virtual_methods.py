"""Reads the virtual methods of a class from C++ header text.

This is a reader for one kind of text, the plain interface classes of PyTorch's headers, not for
C++: comments, literals, templates, default arguments and inline bodies are understood, and what
is not (a condition of the preprocessor among the members, a function pointer among the
parameters) is refused. Every `virtual` and `override` of the class is accounted for, so a method
is read or refused, never overlooked.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""//(?:\\\n|[^\n])* | /\*.*?\*/
      | (?P<literal> R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)"
                   | "(?:\\.|[^"\\\n])*" | (?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+')
      | (?P<directive> \#(?:\\\n|[^\n])*)
      | (?P<token> [A-Za-z_]\w* | [0-9][\w.']* | :: | -> | \.\.\. | \S)""",
    re.DOTALL | re.VERBOSE,
)
_WORD = re.compile(r"[A-Za-z_]\w*\Z")
_ACCESS = frozenset({"public", "protected", "private"})
_PAIRS = {"(": ")", "[": "]", "{": "}", "<": ">"}
_MARKS = frozenset({"virtual", "override"})
# Words that say nothing about a type's name, and words that are (parts of) types, never names.
_QUALIFIERS = frozenset({"const", "volatile", "struct", "class", "enum", "typename"})
_BUILT_IN = frozenset(
    {"void", "bool", "char", "wchar_t", "char8_t", "char16_t", "char32_t", "short", "int", "long"}
    | {"signed", "unsigned", "float", "double", "auto"}
)


class UnreadableError(Exception):
    """The text has something that this reader does not understand; the message says what."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a method.

    Args:
        type: its type as written, with spaces as this module puts them.
        name: its name; empty where the header gives none.
    """

    type: str
    name: str


@dataclass(frozen=True)
class Method:
    """One virtual method.

    Args:
        returns: the return type as written.
        name: the name.
        parameters: in order; default arguments are dropped.
        qualifiers: of "const" and "noexcept", those that it has, in this order.
    """

    returns: str
    name: str
    parameters: tuple[Parameter, ...]
    qualifiers: tuple[str, ...]


@dataclass(frozen=True)
class ClassText:
    """A class as it was read.

    Args:
        name: its name, without namespaces.
        bases: names of its direct bases, without namespaces.
        methods: its public virtual methods but the destructor, in the header's order.
    """

    name: str
    bases: tuple[str, ...]
    methods: tuple[Method, ...]


def read_class(text: str, name: str) -> ClassText | None:
    """Reads the class or struct of that name; None where the text does not define it.

    Args:
        text: a header's text.
        name: the class's name, without namespaces.

    Raises:
        UnreadableError: when there are two of that name, or a part of it is not understood: also
            for a virtual method that is not public or is `final`, which nobody could forward.

    Example:
        >>> read = read_class("struct A : B { virtual int f(int = 1) const { return 2; } };", "A")
        >>> read.bases, read.methods[0].name, read.methods[0].qualifiers
        (('B',), 'f', ('const',))
    """
    tokens = _tokens(text)
    found = [place for place in range(len(tokens)) if _class_name(tokens, place) == name]
    if not found:
        return None
    if len(found) > 1:
        raise UnreadableError(f"it defines {name} {len(found)} times")
    opening = tokens.index("{", found[0])
    head, body = tokens[found[0] : opening], _block(tokens, opening)
    access = "private" if head[0] == "class" else "public"
    return ClassText(name, _bases(head), _methods(body, access))


def _tokens(text: str) -> list[str]:
    """The text's tokens; a directive is one, a literal is `0`, comments are none."""
    tokens = []
    for match in _TOKEN.finditer(text):
        if match["literal"]:
            tokens.append("0")
        elif match["directive"] or match["token"]:
            tokens.append(match["directive"] or match["token"])
    return tokens


def _class_name(tokens: list[str], place: int) -> str:
    """The name of the class whose definition begins at the place; empty where none does."""
    if tokens[place] not in ("class", "struct") or (place and tokens[place - 1] == "enum"):
        return ""
    name = ""
    for token in tokens[place + 1 :]:
        if token in ("{", ":"):
            return name
        if _WORD.match(token) and token != "final":
            name = token
        elif token not in ("final", "::", "(", ")", "[", "]", "0"):  # the rest are attributes
            return ""
    return ""


def _bases(head: list[str]) -> tuple[str, ...]:
    if ":" not in head:
        return ()
    names = []
    for base in _split(head[head.index(":") + 1 :]):
        if not base or "virtual" in base or not _WORD.match(base[-1]):
            raise UnreadableError(f"its base `{_text(base)}` is of an unknown form")
        names.append(base[-1])
    return tuple(names)


def _methods(body: list[str], access: str) -> tuple[Method, ...]:
    methods = []
    seen = 0
    place = 0
    while place < len(body):
        if body[place] in _ACCESS and body[place + 1 : place + 2] == [":"]:
            access = body[place]
            place += 2
            continue
        end = _member_end(body, place)
        member = _declaration(body[place:end])
        place = end
        marks = sum(token in _MARKS for token in member)
        seen += marks
        if marks == 0 and not _is_final_method(member):
            continue
        if "~" in member:
            continue
        if access != "public":
            raise UnreadableError(f"the virtual method `{_text(member)}` is {access}")
        methods.append(_method(member))
    there = sum(token in _MARKS for token in body)
    if there != seen:
        raise UnreadableError(
            f"it has {there} `virtual` and `override`, of which {there - seen} are in no method"
        )
    return tuple(methods)


def _is_final_method(member: list[str]) -> bool:
    return "final" in member and "(" in member and member[0] not in ("class", "struct")


def _member_end(body: list[str], place: int) -> int:
    """The place after the member that begins at `place`."""
    depth = 0
    while place < len(body):
        token = body[place]
        if token.startswith("#"):
            raise UnreadableError(f"it has `{token.strip()}` among its members")
        depth += (token in "([") - (token in ")]")
        if token == "{":
            place += len(_block(body, place)) + 1
            # A body ends its member; an initialiser goes on, or has its semicolon.
            after = body[place + 1 : place + 2]
            if depth == 0 and after not in ([";"], [","], ["{"]):
                return place + 1
        elif token == ";" and depth == 0:
            return place + 1
        place += 1
    return place


def _declaration(member: list[str]) -> list[str]:
    """The member without its body or initialiser in braces."""
    depth = 0
    for place, token in enumerate(member):
        depth += (token in "([") - (token in ")]")
        if depth == 0 and token in "{;":
            return member[:place]
    return member


def _block(tokens: list[str], opening: int) -> list[str]:
    """What is between the brace at `opening` and its partner."""
    depth = 0
    for place in range(opening, len(tokens)):
        depth += (tokens[place] == "{") - (tokens[place] == "}")
        if depth == 0:
            return tokens[opening + 1 : place]
    raise UnreadableError("a brace is never closed")


def _method(member: list[str]) -> Method:
    refused = UnreadableError(f"the virtual method `{_text(member)}` is of an unknown form")
    tokens = _without_attributes(member)
    while tokens and tokens[0] in ("virtual", "inline", "constexpr"):
        tokens = tokens[1:]
    depths = _depths(tokens)
    opening = next((i for i, token in enumerate(tokens) if token == "(" and depths[i] == 1), 0)
    closing = next((i for i, d in enumerate(depths) if i > opening and d == 0), 0)
    if opening < 2 or not closing or not _WORD.match(tokens[opening - 1]):
        raise refused
    returns, name, rest = tokens[: opening - 1], tokens[opening - 1], tokens[closing + 1 :]
    if rest[-2:] == ["=", "0"]:
        rest = rest[:-2]
    if "operator" in returns or not set(rest) <= {"const", "noexcept", "override"}:
        raise refused
    if len(set(rest)) != len(rest) or _MARKS & set(returns):
        raise refused
    parameters = [_parameter(each) for each in _split(tokens[opening + 1 : closing])]
    if [each.type for each in parameters] == ["void"]:
        parameters = []
    qualifiers = tuple(each for each in ("const", "noexcept") if each in rest)
    return Method(_text(returns), name, tuple(parameters), qualifiers)


def _parameter(tokens: list[str]) -> Parameter:
    whole = tokens
    tokens = _without_attributes(tokens)
    depths = _depths(tokens)
    for place, token in enumerate(tokens):
        if depths[place] == 0 and token == "=":
            tokens = tokens[:place]
            break
    outer = [token for token, depth in zip(tokens, _depths(tokens), strict=True) if depth <= 1]
    if not tokens or any(each in outer for each in ("(", "[", "...")):
        raise UnreadableError(f"the parameter `{_text(whole)}` is of an unknown form")
    before = [token for token in tokens[:-1] if token not in _QUALIFIERS]
    named = (
        bool(before)
        and before[-1] != "::"
        and _WORD.match(tokens[-1]) is not None
        and tokens[-1] not in _QUALIFIERS | _BUILT_IN
    )
    return Parameter(_text(tokens[:-1]), tokens[-1]) if named else Parameter(_text(tokens), "")


def _without_attributes(tokens: list[str]) -> list[str]:
    while tokens[:2] == ["[", "["]:
        depths = _depths(tokens)
        tokens = tokens[depths.index(0) + 1 :]
    return tokens


def _split(tokens: list[str]) -> list[list[str]]:
    """The parts between the commas that no bracket holds; none of an empty list."""
    parts: list[list[str]] = [[]]
    for token, depth in zip(tokens, _depths(tokens), strict=True):
        if token == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts if tokens else []


def _depths(tokens: list[str]) -> list[int]:
    """How many brackets hold each token; an opening bracket is inside, a closing one outside.

    `<` is a bracket after a word and `>` where it closes one; elsewhere they are operators.
    """
    open_brackets: list[str] = []
    depths = []
    for place, token in enumerate(tokens):
        if token == "<":
            before, after = tokens[place - 1 : place], tokens[place + 1 : place + 2]
            if before and _WORD.match(before[0]) and after != ["<"]:
                open_brackets.append(">")
        elif token in _PAIRS:
            open_brackets.append(_PAIRS[token])
        elif token == ">":
            if open_brackets and open_brackets[-1] == ">":
                open_brackets.pop()
        elif token in ")]}" and (not open_brackets or open_brackets.pop() != token):
            raise UnreadableError(f"the brackets of `{_text(tokens)}` do not match")
        depths.append(len(open_brackets))
    if open_brackets:
        raise UnreadableError(f"the brackets of `{_text(tokens)}` do not match")
    return depths


def _text(tokens: Sequence[str]) -> str:
    """The tokens as text, each type always with the same spaces."""
    text = ""
    for token in tokens:
        wordy = _WORD.match(token) is not None or token == "="
        if text and (text[-1] in ",=" or (wordy and (text[-1].isalnum() or text[-1] in "_*&>)"))):
            text += " "
        text += token
    return text
