"""Places of objects: the names that lead from a variable of the program to a tensor.

train  ──.history──▶  train.history  ──[3]──▶  train.history[3]
       ──.model────▶  train.model    ──────▶   parameters of train.model
main() ──loss──────▶  loss in main()

A place holds only text, so it keeps no object alive.
"""

from dataclasses import dataclass

_LONGEST_KEY = 40
"""Maximum number of characters of a dictionary's key in a name. Longer keys are cut."""


@dataclass(frozen=True, eq=False, slots=True)
class Place:
    """One place on the path from a variable to a tensor.

    Args:
        parent: the place that leads here; None at the beginning, such as a module or a function.
        step: text that follows the parent's name, such as ".history" or "[3]".
        kind: type name of the object; "" for a group of tensors, such as parameters.
        whole: for a group, the text before "of" and the parent's name, as in "parameters of
            train.model"; else "".
        alone: whether the name begins here, without the parent's name.
        splits: whether the parts of the object are reported one by one.
    """

    parent: "Place | None"
    step: str
    kind: str = ""
    whole: str = ""
    alone: bool = False
    splits: bool = False

    @property
    def key(self) -> str:
        """Text that distinguishes the place from other places with the same parent."""
        return self.whole or self.step

    @property
    def name(self) -> str:
        """Name for users.

        Example:
            >>> train = Place(None, "train")
            >>> Place(Place(train, ".model"), "", whole="parameters").name
            'parameters of train.model'
            >>> Place(Place(None, "()main"), ".loss").name
            'loss in main()'
        """
        before: list[str] = []
        steps: list[str] = []
        scope = ""
        place: Place | None = self
        while place is not None:
            if place.whole:
                before.append(f"{place.whole} of ")
            if place.parent is None and place.step.startswith("()"):
                scope = f" in {place.step[2:]}()"
            else:
                steps.append(place.step)
            place = None if place.alone else place.parent
        return "".join(before) + "".join(reversed(steps)).lstrip(".") + scope


def function_scope(name: str) -> Place:
    """Return the place of a function's local variables."""
    return Place(None, f"(){name}", splits=True)


def key_step(key: object) -> str:
    """Return the step that leads to a dictionary's value for a key."""
    if type(key) in (str, int, bool, float):
        text = repr(key)
        return f"[{text if len(text) <= _LONGEST_KEY else text[: _LONGEST_KEY - 3] + '...'}]"
    return f"[{type(key).__name__}]"
