"""Parses and evaluates conditions of role assignments. Pure.

Supported are AND, OR, NOT or `!`, parentheses, ActionMatches, the suboperation Blob.List,
comparisons of a container's name or a blob's path with one text, and of an assigned role with
several GUIDs. A condition of another form is refused.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

CONTAINERS: Final = "Microsoft.Storage/storageAccounts/blobServices/containers"
ASSIGNMENTS: Final = "Microsoft.Authorization/roleAssignments"


@dataclass(frozen=True)
class Operation:
    """An operation on blobs or role assignments that a role may allow."""

    action: str
    """Action, such as `.../containers/blobs/read`."""
    container: str = ""
    path: str = ""
    """Path of the blob; empty if all blobs of the container are listed."""
    role: str = ""
    """GUID of the role that is assigned or removed, in lower case."""


Condition: TypeAlias = Callable[[Operation], bool]
"""Decides whether a role applies to an operation."""

_READ: Final = f"{CONTAINERS}/blobs/read"
_TOKEN: Final = re.compile(r"\s*([()!{},]|'[^']*'|@(?:Resource|Request)\[[^\]]*\]|[\w:-]+)")
_ATTRIBUTES: Final[Mapping[str, Callable[[Operation], str]]] = {
    f"@Resource[{CONTAINERS}:name]": lambda operation: operation.container,
    f"@Resource[{CONTAINERS}/blobs:path]": lambda operation: operation.path,
}
_ASSIGNED: Final = tuple(f"@{of}[{ASSIGNMENTS}:RoleDefinitionId]" for of in ("Request", "Resource"))
_ONE_OF: Final = "ForAnyOfAnyValues:GuidEquals"
_TESTS: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "StringEquals": lambda value, text: value == text,
    "StringNotEquals": lambda value, text: value != text,
    "StringStartsWith": lambda value, text: value.startswith(text),
    "StringNotStartsWith": lambda value, text: not value.startswith(text),
}


def parse(text: str) -> Condition:
    """Parse a condition.

    Raises:
        ValueError: it is malformed, or of a form that is not supported.
    """
    return _Parser(text).condition()


class _Parser:
    """Reads tokens from left to right: AND binds more tightly than OR."""

    def __init__(self, text: str) -> None:
        if _TOKEN.sub("", text).strip():
            raise ValueError(f"the condition {text!r} is malformed")
        self._tokens = _TOKEN.findall(text)

    def condition(self) -> Condition:
        parsed = self._either()
        if self._tokens:
            raise ValueError(f"the condition has {self._tokens[0]!r} in a wrong place")
        return parsed

    def _either(self) -> Condition:
        parts = [self._all()]
        while self._tokens[:1] == ["OR"]:
            self._next()
            parts.append(self._all())
        return lambda operation: any(part(operation) for part in parts)

    def _all(self) -> Condition:
        parts = [self._one()]
        while self._tokens[:1] == ["AND"]:
            self._next()
            parts.append(self._one())
        return lambda operation: all(part(operation) for part in parts)

    def _one(self) -> Condition:
        word = self._next()
        if word in {"!", "NOT"}:
            negated = self._one()
            return lambda operation: not negated(operation)
        if word == "(":
            inner = self._either()
            self._next(")")
            return inner
        if word == "ActionMatches":
            action = self._braced()
            return lambda operation: operation.action == action
        if word == "SubOperationMatches":
            if self._braced() != "Blob.List":
                raise ValueError("the condition has a suboperation that is not supported here")
            return lambda operation: operation.action == _READ and not operation.path
        if word in _ASSIGNED:
            self._next(_ONE_OF)
            roles = self._guids()
            return lambda operation: operation.role in roles
        attribute, test = _ATTRIBUTES.get(word), _TESTS.get(self._next())
        if attribute is None or test is None:
            raise ValueError(f"the condition's comparison of {word} is not supported here")
        text = self._text()
        return lambda operation: test(attribute(operation), text)

    def _braced(self) -> str:
        self._next("{")
        text = self._text()
        self._next("}")
        return text

    def _guids(self) -> frozenset[str]:
        self._next("{")
        guids = {self._next().lower()}
        while self._tokens[:1] == [","]:
            self._next()
            guids.add(self._next().lower())
        self._next("}")
        return frozenset(guids)

    def _text(self) -> str:
        word = self._next()
        if not word.startswith("'"):
            raise ValueError(f"the condition has {word!r} instead of a quoted text")
        return word[1:-1]

    def _next(self, expected: str | None = None) -> str:
        word = self._tokens.pop(0) if self._tokens else "its end"
        if expected not in (None, word):
            raise ValueError(f"the condition has {word!r} instead of {expected!r}")
        return word
