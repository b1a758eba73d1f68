"""What `Annotated` adds to a field: bounds, a form, a former name. Standard library only."""

import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class Bounds:
    """The range of a number; `at_least` and `at_most` are inclusive."""

    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None

    def allow(self, value: float) -> bool:
        """Whether a number is within the bounds."""
        return (
            (self.at_least is None or value >= self.at_least)
            and (self.at_most is None or value <= self.at_most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )

    def problem(self, value: float) -> str | None:
        """Return the fault of a number as words, or None."""
        return None if self.allow(value) else f"must be {self}"

    def __str__(self) -> str:
        if self.at_least is not None and self.at_most is not None:
            return f"from {self.at_least:g} to {self.at_most:g}"
        words = {
            "at least": self.at_least,
            "at most": self.at_most,
            "above": self.above,
            "below": self.below,
        }
        return " and ".join(
            f"{word} {bound:g}" for word, bound in words.items() if bound is not None
        )


@dataclasses.dataclass(frozen=True)
class Pattern:
    """The form of a text: a regular expression for the whole text, and a description of it."""

    pattern: str
    wants: str

    def problem(self, value: str) -> str | None:
        """Return the fault of a text as words, or None."""
        return None if re.fullmatch(self.pattern, value) else f"must be {self.wants}"


@dataclasses.dataclass(frozen=True)
class Formerly:
    """The former name of a field: a user who still uses it is told the current name."""

    name: str
    moved: bool = False
    """Whether the name is a whole dotted key, because the field was in another group."""


@dataclasses.dataclass(frozen=True)
class Alone:
    """The value of an option with a choice of values if none of them follows it."""

    value: str


@dataclasses.dataclass(frozen=True)
class Required:
    """A field that a command line must give; its default stands for "not given" alone."""

    advice: str = ""
    """Clause that says where the value is found, for the error."""


@dataclasses.dataclass(frozen=True)
class Positional:
    """A field that a command line takes by its position; the name is for help and errors."""

    name: str
