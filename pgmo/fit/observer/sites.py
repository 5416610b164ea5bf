"""Evaluations, checkpoints and replacements of parameters in a script, and which of them have run.

A rehearsal ends after a few iterations, so it misses code that runs later: `if step % 500 == 0`.
The memory of missed code is unknown, and the answer names this code.
"""

import ast
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import FrameType
from typing import Any

from pgmo.fit.observer.trainer import LightningValidation, TrainerEvaluation

_WITHOUT_GRAD = frozenset({"no_grad", "inference_mode"})
_EVALUATES = "trainer.evaluate"
_EVAL, _UNDER, REPLACES = "eval()", "code under ", "parameters replaced"
_SAVES = frozenset({"save_pretrained", "save_checkpoint", "save_state", "save_model"})
_OF_TRAINERS = frozenset({"evaluate", "predict", "test", "validate"})
"""Methods of trainers that evaluate."""


@dataclass(frozen=True)
class Site:
    """Piece of code that evaluates a model, saves it, or replaces its parameters.

    Args:
        file: path of the file.
        lines: lines at which the frame may be when the code begins.
        function: name of the enclosing function, or "" at the top level of a module.
        what: short description, as "torch.save"; "" if the code is the whole function.
    """

    file: str
    lines: range
    function: str
    what: str

    @property
    def text(self) -> str:
        """Description, as "torch.save in main() at train.py:12"."""
        parts = [self.what, f"{self.function}()" if self.function else ""]
        return f"{' in '.join(filter(None, parts))} at {Path(self.file).name}:{self.lines.start}"


def sites_of(files: Iterable[Path]) -> list[Site]:
    """Return the sites in Python files; a file that cannot be read or parsed has none.

    Sites in functions whose names no code mentions are left out. If the files define a trainer's
    method themselves, calls of the method are left out, because sites in the method count.
    """
    found: list[Site] = []
    used: set[str] = set()
    own: set[str] = set()
    for file in files:
        try:
            tree = ast.parse(file.read_bytes())
        except (OSError, SyntaxError, ValueError):
            continue
        found += _sites_in(tree, str(file), "")
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                own.add(f"trainer.{node.name}")
            elif isinstance(node, ast.Name | ast.Attribute):
                used.add(_name_of(node))
    return [
        site
        for site in found
        if (not site.function or site.function in used) and site.what not in own
    ]


def _sites_in(node: ast.AST, file: str, function: str) -> Iterator[Site]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            for one in child.decorator_list:
                if _name_of(one) in _WITHOUT_GRAD:
                    yield Site(file, range(one.lineno, child.lineno + 1), child.name, "")
            yield from _sites_in(child, file, child.name)
            continue
        if isinstance(child, ast.With | ast.AsyncWith):
            for item in child.items:
                if (name := _name_of(item.context_expr)) in _WITHOUT_GRAD:
                    lines = _lines(item.context_expr, child.lineno)
                    yield Site(file, lines, function, f"{_UNDER}{name}")
        elif isinstance(child, ast.Call) and (what := _what_it_does(child)):
            yield Site(file, _lines(child, child.lineno), function, what)
        elif isinstance(child, ast.Assign) and any(map(_is_of_parameters, child.targets)):
            yield Site(file, range(child.lineno, child.lineno + 1), function, REPLACES)
        yield from _sites_in(child, file, function)


def _lines(node: ast.expr, first: int) -> range:
    return range(first, (node.end_lineno or node.lineno) + 1)


def _name_of(node: ast.expr) -> str:
    """Return the last part of a name, called or not: "no_grad" for `torch.no_grad()`."""
    if isinstance(node, ast.Call):
        node = node.func
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _what_it_does(call: ast.Call) -> str:
    """Return the description of a call that is a `Site`; "" for other calls."""
    if not isinstance(call.func, ast.Attribute):
        return ""
    name, owner = call.func.attr, call.func.value
    if name == "save" and isinstance(owner, ast.Name) and owner.id == "torch":
        return "torch.save"
    if name == "add_param_group":
        return REPLACES
    if name == "eval" and not call.args and not call.keywords:
        return _EVAL
    if name in _OF_TRAINERS and "trainer" in ast.unparse(owner).rpartition(".")[2].lower():
        return f"trainer.{name}"
    return name if name in _SAVES else ""


def _is_of_parameters(target: ast.expr) -> bool:
    """Return whether an assignment changes `group["params"]`, the parameters of an optimizer."""
    while isinstance(target, ast.Subscript):
        if isinstance(target.slice, ast.Constant) and target.slice.value == "params":
            return True
        target = target.value
    return False


class SitesRun:
    """Record of the sites that have run, made by hooks on torch.

    Args:
        script: file that the process runs. Modules below its folder belong to the script, except
            installed packages.

    Attributes:
        has_replaced: whether parameters of an optimizer were replaced; set by the observer.
    """

    def __init__(self, script: Path) -> None:
        self._script = str(script.resolve())
        self._folder = f"{script.resolve().parent}/"
        self._own: dict[str, str] = {}  # real path of each file, or "" if it is not the script's
        self._ran: set[tuple[str, int]] = set()
        self._trainer = TrainerEvaluation(self._evaluates)
        self._lightning = LightningValidation()
        self.has_replaced = False
        self._found: tuple[list[Path], list[Site]] = ([], [])

    @property
    def ran(self) -> int:
        """Number of lines and trainers that have evaluated, saved or replaced parameters."""
        trainers = self._trainer.has_run + self._lightning.has_run
        return len(self._ran) + self.has_replaced + trainers

    def hook_trainers(self) -> None:
        """Hook the trainers of libraries, before the script imports them."""
        self._trainer.attach()
        self._lightning.attach()

    def attach(self) -> None:
        """Hook the beginnings of evaluations and checkpoints; call it after the import of torch."""
        import torch

        for owner, name in (
            (torch.no_grad, "__enter__"),
            (torch.inference_mode, "__enter__"),
            (torch.nn.Module, "eval"),
            (torch, "save"),
        ):
            setattr(owner, name, self._recording(getattr(owner, name)))

    def missed(self) -> list[str]:
        """Return descriptions of evaluations and sites that have not run, one for each function."""
        found = self._sites()
        sites = [site for site in found if not self._has_run(site)]
        # An `eval` that a model overrides is not hooked, but `no_grad` in the same function is.
        without_grad = {
            (site.file, site.function)
            for site in found
            if site.what.startswith(_UNDER) or not site.what
        }
        missed: dict[tuple[str, str], str] = {}
        for site in sites:
            # `eval()` and `no_grad` begin the same evaluation.
            if site.what != _EVAL or (site.file, site.function) not in without_grad:
                missed.setdefault((site.file, site.function or site.text), site.text)
        trainers = [one.text for one in (self._trainer, self._lightning) if one.is_missed]
        return [*trainers, *missed.values()]

    def _sites(self) -> list[Site]:
        files = self._files()
        if files != self._found[0]:
            self._found = files, sites_of(files)
        return self._found[1]

    def _evaluates(self) -> bool:
        """Return whether the script calls `trainer.evaluate`."""
        return any(site.what == _EVALUATES for site in self._sites())

    def _has_run(self, site: Site) -> bool:
        if site.what == REPLACES:
            return self.has_replaced
        if site.what == _EVALUATES and self._trainer.has_run:
            return True
        return any((site.file, line) in self._ran for line in site.lines)

    def _files(self) -> list[Path]:
        """Return the script and the modules of its folder that are imported."""
        files = [getattr(module, "__file__", None) or "" for module in list(sys.modules.values())]
        own = {self.own_path(file) for file in files} - {"", self._script}
        return [Path(self._script), *(Path(file) for file in sorted(own))]

    def own_path(self, file: str) -> str:
        """Return the real path of a file of the script; "" for other files."""
        if file not in self._own:
            path = os.path.realpath(file)
            inside = path.startswith(self._folder) and "site-packages" not in path
            self._own[file] = path if inside and path.endswith(".py") else ""
        return self._own[file]

    def _recording(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            self._note(sys._getframe(1))
            return function(*args, **kwargs)

        return recorded

    def _note(self, frame: FrameType | None) -> None:
        """Record the script's innermost line, or the decorated function that torch calls next."""
        while frame is not None:
            decorated = None
            if frame.f_code.co_name == "decorate_context":
                decorated = getattr(frame.f_locals.get("func"), "__code__", None)
            if decorated is not None and (file := self.own_path(decorated.co_filename)):
                self._ran.add((file, decorated.co_firstlineno))
                return
            if file := self.own_path(frame.f_code.co_filename):
                self._ran.add((file, frame.f_lineno))
                return
            frame = frame.f_back
