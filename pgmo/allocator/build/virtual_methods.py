"""Reader of the virtual methods of a class in a C++ header.

The reader understands the interface classes of PyTorch's headers: comments, literals, templates,
default arguments and inline bodies. It refuses other constructs, such as preprocessor conditions
among members. Every `virtual` and `override` of the class is counted, so no method is overlooked.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_IGNORED = re.compile(
    r"""//(?:\\\n|[^\n])* | /\*.*?\*/
      | (?P<literal> R"(?P<mark>[^\s()\\]{0,16})\(.*?\)(?P=mark)"
                   | "(?:\\.|[^"\\\n])*" | (?<![0-9A-Fa-f])'(?:\\.|[^'\\\n])+')""",
    re.DOTALL | re.VERBOSE,
)
_CLASS = (
    r"(?<!\benum )\b(?P<kind>class|struct) (?:[\w()\[\] ]|::)*?\b{name} ?(?:final ?)?"
    r"(?::(?!:)(?P<bases>[^{{;]*))?{{"
)
_FIRST_ACCESS = {"class": "private", "struct": "public"}
_ACCESS = re.compile(r" ?(public|protected|private) ?:(?!:)")
_TOKEN = re.compile(r"[A-Za-z_]\w*|[0-9][\w.']*|::|->|\.\.\.|\S")
_MARK = re.compile(r"\b(?:virtual|override)\b")
_BEFORE_METHOD = re.compile(r"(?: ?\[\[.*?\]\])* ?(?:(?:virtual|inline|constexpr) )*")
_NAME = re.compile(r"[A-Za-z_]\w*\Z")
_TEMPLATE = re.compile(r"[A-Za-z_]\w* ?\Z")
_PAIRS = {"(": ")", "[": "]", "{": "}", "<": ">"}
# Qualifiers, which are not part of a type's name; and built-in types, which name no parameter.
_QUALIFIERS = frozenset({"const", "volatile", "struct", "class", "enum", "typename"})
_BUILT_IN = frozenset(
    {"void", "bool", "char", "wchar_t", "char8_t", "char16_t", "char32_t", "short", "int", "long"}
    | {"signed", "unsigned", "float", "double", "auto"}
)


class UnreadableError(Exception):
    """Error for a construct that this reader does not understand; the message names it."""


@dataclass(frozen=True)
class Parameter:
    """Parameter of a method: its type with normalized spaces, and its name; "" without a name."""

    type: str
    name: str


@dataclass(frozen=True)
class Method:
    """Virtual method, without default arguments; `qualifiers` may have "const" and "noexcept"."""

    returns: str
    name: str
    parameters: tuple[Parameter, ...]
    qualifiers: tuple[str, ...]


@dataclass(frozen=True)
class ClassText:
    """Class: its name and direct bases without namespaces, and its public virtual methods."""

    name: str
    bases: tuple[str, ...]
    methods: tuple[Method, ...]


def read_class(text: str, name: str) -> ClassText | None:
    """Read a class or struct by name; return None if the text does not define it.

    Raises:
        UnreadableError: if the text defines several classes of the name, a construct is not
            understood, or a virtual method cannot be forwarded because it is `final` or not public.
    """
    text = " ".join(_IGNORED.sub(lambda match: "0" if match["literal"] else " ", text).split())
    found = list(re.finditer(_CLASS.format(name=name), text))
    if not found:
        return None
    if len(found) > 1:
        raise UnreadableError(f"the file defines {name} {len(found)} times")
    depth = 0
    for at in range(found[0].end() - 1, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            body, access = text[found[0].end() : at], _FIRST_ACCESS[found[0]["kind"]]
            return ClassText(name, _bases(found[0]["bases"] or ""), _methods(body, access))
    raise UnreadableError("a brace is never closed")


def _bases(text: str) -> tuple[str, ...]:
    names = []
    for base in _split(text):
        tokens = _TOKEN.findall(base)
        if not tokens or "virtual" in tokens or not _NAME.match(tokens[-1]):
            raise UnreadableError(f"its base `{_text(base)}` is of an unknown form")
        names.append(tokens[-1])
    return tuple(names)


def _methods(body: str, access: str) -> tuple[Method, ...]:
    methods, seen = [], 0
    for member in _members(body):
        while label := _ACCESS.match(member):
            access, member = label[1], member[label.end() :]
        if "#" in member:
            directive = member[member.index("#") :].strip()
            raise UnreadableError(f"the class has `{directive}` among its members")
        marks = len(_MARK.findall(member))
        seen += marks
        is_final = re.search(r"\bfinal\b", member) and "(" in member
        if "~" in member or not (marks or (is_final and not re.match(" ?(class|struct)", member))):
            continue
        if access != "public":
            raise UnreadableError(f"the virtual method `{_text(member)}` is {access}")
        methods.append(_method(member))
    there = len(_MARK.findall(body))
    if there != seen:
        raise UnreadableError(
            f"the class has `virtual` or `override` {there} times, {there - seen} in no method"
        )
    return tuple(methods)


def _members(body: str) -> Iterator[str]:
    """Yield the members of a class without their bodies and braced initialisers."""
    begin, end, depth = 0, None, 0
    for at, char in enumerate(body):
        if char == "{" and depth == 0 and end is None:
            end = at
        depth += (char in "([{") - (char in ")]}")
        # A body ends its member; after an initialiser, the member continues or has a semicolon.
        is_body = char == "}" and body[at + 1 : at + 3].strip()[:1] not in tuple(";,{")
        if depth == 0 and (char == ";" or is_body):
            yield body[begin : at if end is None else end]
            begin, end = at + 1, None
    if body[begin:].strip():
        yield body[begin:]


def _method(member: str) -> Method:
    refused = UnreadableError(f"the virtual method `{_text(member)}` is of an unknown form")
    text = member[_BEFORE_METHOD.match(member).end() :]  # type: ignore[union-attr]
    outer = _outer(text)
    opening, closing = outer.find("("), outer.find(")")
    *returns, name = _TOKEN.findall(text[: max(opening, 0)]) or [""]
    rest = re.findall(r"\w+|\S", text[closing + 1 :].removesuffix(" = 0").removesuffix("=0"))
    if not returns or closing < 0 or not _NAME.match(name):
        raise refused
    if "operator" in returns or not set(rest) <= {"const", "noexcept", "override"}:
        raise refused
    if len(set(rest)) != len(rest) or {"virtual", "override"} & set(returns):
        raise refused
    parameters = [_parameter(each) for each in _split(text[opening + 1 : closing])]
    if [each.type for each in parameters] == ["void"]:
        parameters = []
    qualifiers = tuple(each for each in ("const", "noexcept") if each in rest)
    return Method(_text(" ".join(returns)), name, tuple(parameters), qualifiers)


def _parameter(whole: str) -> Parameter:
    text = whole[_BEFORE_METHOD.match(whole).end() :]  # type: ignore[union-attr]
    outer = _outer(text).partition("=")[0]
    text = text[: len(outer)].strip()
    if not text or any(each in outer for each in ("(", "[", "...")):
        raise UnreadableError(f"the parameter `{_text(whole)}` is of an unknown form")
    *types, last = _TOKEN.findall(text)
    before = [token for token in types if token not in _QUALIFIERS]
    named = before and before[-1] != "::" and last not in _QUALIFIERS | _BUILT_IN
    if not named or not _NAME.match(last):
        return Parameter(_text(text), "")
    return Parameter(_text(text.removesuffix(last)), last)


def _split(text: str) -> list[str]:
    """Return the parts between the outer commas; no part for an empty list."""
    parts, begin, outer = [], 0, _outer(text)
    for comma in [at for at, char in enumerate(outer) if char == ","]:
        parts.append(text[begin:comma])
        begin = comma + 1
    return [*parts, text[begin:]] if text.strip() else []


def _outer(text: str) -> str:
    """Return the text with blanks in place of the characters inside brackets.

    `<` after a word is a bracket, and so is a `>` that closes it. Otherwise both are operators.
    """
    outer: list[str] = []
    closing: list[str] = []
    for at, char in enumerate(text):
        if closing and char == closing[-1] and text[at - 1 : at + 1] != "->":
            closing.pop()
        elif char in ")]}":
            closing.append("")
            break
        outer.append(" " if closing else char)
        operator = char == "<" and (text[at + 1 :][:1] == "<" or not _TEMPLATE.search(text[:at]))
        if char in _PAIRS and not operator:
            closing.append(_PAIRS[char])
    if closing:
        raise UnreadableError(f"the brackets of `{_text(text)}` do not match")
    return "".join(outer)


def _text(source: str) -> str:
    """Return a text with normalized spaces, so that equal types have equal texts."""
    text = ""
    for token in _TOKEN.findall(source):
        wordy = _NAME.match(token) is not None or token == "="
        if text and (text[-1] in ",=" or (wordy and (text[-1].isalnum() or text[-1] in "_*&>)"))):
            text += " "
        text += token
    return text
