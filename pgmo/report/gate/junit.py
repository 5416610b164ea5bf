"""JUnit XML: a suite for each program, a case for each figure.

Source: the schema of Jenkins' xUnit plug-in (junit-10.xsd), which GitLab, Azure and others read.
"""

import re
from xml.etree import ElementTree

from pgmo.report.gate.gate import Gate
from pgmo.report.gate.growth import Figure
from pgmo.report.gate.words import grown_lines, told

_ODD = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot hold: control characters, halves of surrogate pairs, two that are none."""


def junit_xml(gate: Gate) -> str:
    """The whole document.

    Example:
        >>> from pgmo.report.gate.tolerance import Tolerance
        >>> print(junit_xml(Gate((), (), ("net",), Tolerance())).splitlines()[1])
        <testsuites tests="1" failures="1">
    """
    root = ElementTree.Element("testsuites")
    for program in gate.programs:
        suite = _suite(root, program.name)
        for figure in program.figures:
            case = ElementTree.SubElement(
                suite, "testcase", classname=_clean(program.name), name=figure.name
            )
            if figure.failed:
                _fail(case, _message(figure), "\n".join(grown_lines(figure)))
            elif figure.before is None or figure.after is None:
                ElementTree.SubElement(case, "skipped", message="not known of both states")
    for name in gate.new:
        case = ElementTree.SubElement(_suite(root, name), "testcase", name="earlier state")
        case.set("classname", _clean(name))
        ElementTree.SubElement(case, "skipped", message="there is none to compare with")
    for name in gate.gone:
        case = ElementTree.SubElement(_suite(root, name), "testcase", name="new state")
        case.set("classname", _clean(name))
        _fail(case, "was recorded before, and is not any more", "")
    for suite in (*root, root):
        suite.set("tests", str(len(list(suite.iter("testcase")))))
        suite.set("failures", str(len(list(suite.iter("failure")))))
    ElementTree.indent(root)
    text = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _suite(root: ElementTree.Element, name: str) -> ElementTree.Element:
    return ElementTree.SubElement(root, "testsuite", name=_clean(name))


def _fail(case: ElementTree.Element, message: str, text: str) -> None:
    failure = ElementTree.SubElement(case, "failure", message=_clean(message), type="memory")
    failure.text = _clean(text)


def _message(figure: Figure) -> str:
    return (
        f"{figure.name} is {told(figure, figure.after)}; it was {told(figure, figure.before)}, and "
        f"{told(figure, figure.limit)} is allowed"
    )


def _clean(text: str) -> str:
    return _ODD.sub("\N{REPLACEMENT CHARACTER}", text)
