"""Reader of the virtual methods of a class in a C++ header.

It reads the plain interface classes of PyTorch's headers, not all of C++. It understands comments,
literals, templates, default arguments and inline bodies. It refuses other constructs, such as
preprocessor conditions among members or function pointers among parameters. Every `virtual` and
`override` of the class is counted, so no method is overlooked.
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
# Words that are no part of a type's name, and words that are types, never parameter names.
_QUALIFIERS = frozenset({"const", "volatile", "struct", "class", "enum", "typename"})
_BUILT_IN = frozenset(
    {"void", "bool", "char", "wchar_t", "char8_t", "char16_t", "char32_t", "short", "int", "long"}
    | {"signed", "unsigned", "float", "double", "auto"}
)


class UnreadableError(Exception):
    """Error for a construct that this reader does not understand; the message names it."""


@dataclass(frozen=True)
class Parameter:
    """Parameter of a method.

    Args:
        type: type as written, with normalized spaces.
        name: name; empty if the header gives none.
    """

    type: str
    name: str


@dataclass(frozen=True)
class Method:
    """Virtual method of a class.

    Args:
        returns: the return type as written.
        name: the name.
        parameters: in order; default arguments are dropped.
        qualifiers: subset of "const" and "noexcept", in this order.
    """

    returns: str
    name: str
    parameters: tuple[Parameter, ...]
    qualifiers: tuple[str, ...]


@dataclass(frozen=True)
class ClassText:
    """Class as read from a header.

    Args:
        name: name, without namespaces.
        bases: names of the direct bases, without namespaces.
        methods: public virtual methods except the destructor, in the header's order.
    """

    name: str
    bases: tuple[str, ...]
    methods: tuple[Method, ...]


def read_class(text: str, name: str) -> ClassText | None:
    """Read a class or struct by name; return None if the text does not define it.

    Raises:
        UnreadableError: if there are two classes of that name, or a part is not understood. Virtual
            methods that are not public or are `final` count as such, as they cannot be forwarded.

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
    """Return the tokens of a text; a directive is one token, a literal is `0`, a comment none."""
    tokens = []
    for match in _TOKEN.finditer(text):
        if match["literal"]:
            tokens.append("0")
        elif match["directive"] or match["token"]:
            tokens.append(match["directive"] or match["token"])
    return tokens


def _class_name(tokens: list[str], place: int) -> str:
    """Return the name of the class whose definition begins at a token; "" if none does."""
    if tokens[place] not in ("class", "struct") or (place and tokens[place - 1] == "enum"):
        return ""
    name = ""
    for token in tokens[place + 1 :]:
        if token in ("{", ":"):
            return name
        if _WORD.match(token) and token != "final":
            name = token
        elif token not in ("final", "::", "(", ")", "[", "]", "0"):  # of attributes
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
    """Return the index after the member that begins at `place`."""
    depth = 0
    while place < len(body):
        token = body[place]
        if token.startswith("#"):
            raise UnreadableError(f"it has `{token.strip()}` among its members")
        depth += (token in "([") - (token in ")]")
        if token == "{":
            place += len(_block(body, place)) + 1
            # A body ends its member; after an initialiser, the member continues or has a semicolon.
            after = body[place + 1 : place + 2]
            if depth == 0 and after not in ([";"], [","], ["{"]):
                return place + 1
        elif token == ";" and depth == 0:
            return place + 1
        place += 1
    return place


def _declaration(member: list[str]) -> list[str]:
    """Return a member without its body or braced initialiser."""
    depth = 0
    for place, token in enumerate(member):
        depth += (token in "([") - (token in ")]")
        if depth == 0 and token in "{;":
            return member[:place]
    return member


def _block(tokens: list[str], opening: int) -> list[str]:
    """Return the tokens between the brace at `opening` and its closing brace."""
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
    """Return the parts between top-level commas; no part for an empty list."""
    parts: list[list[str]] = [[]]
    for token, depth in zip(tokens, _depths(tokens), strict=True):
        if token == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts if tokens else []


def _depths(tokens: list[str]) -> list[int]:
    """Return the bracket depth of each token; an opening bracket is inside, a closing one outside.

    `<` is a bracket after a word, and `>` if it closes one; otherwise they are operators.
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
    """Return the tokens as text, with equal spaces for equal types."""
    text = ""
    for token in tokens:
        wordy = _WORD.match(token) is not None or token == "="
        if text and (text[-1] in ",=" or (wordy and (text[-1].isalnum() or text[-1] in "_*&>)"))):
            text += " "
        text += token
    return text
