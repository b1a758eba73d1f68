"""Azure's answers to requests that it carries out: statuses, headers, states and bodies.

Long operations are answered before they end. The body then shows a state such as Creating, or is
missing, and headers say where the state of the operation can be read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

BUSY: Final = frozenset({"Creating", "Updating", "Deleting", "RegisteringDns"})
"""States of a resource on which an operation runs."""


@dataclass(frozen=True)
class Answer:
    """The answer to one request."""

    status: int
    state: str = ""
    """`provisioningState` in the body and, until the operation ends, of the resource; empty if
    there is no operation, or if the resource is ready while its operation still runs."""
    polled: bool = False
    """Whether the header Azure-AsyncOperation names the operation's state."""
    location: Literal["", "result", "self"] = ""
    """Whether the header Location names the operation's result, or the resource."""
    pause: int | None = None
    """Seconds in the header Retry-After; None if Azure sends none."""
    body: Literal["resource", "empty", ""] = "resource"
    """Kind of the body: the resource, an empty object, or missing."""
    hidden: tuple[str, ...] = ()
    """Properties that the resource gets when the operation ends."""

    @property
    def continues(self) -> bool:
        """Whether the operation continues after the answer."""
        return bool(self.state or self.polled or self.location == "result")


@dataclass(frozen=True)
class Answers:
    """The answers about one kind of resource."""

    created: Answer = Answer(201)
    """To a PUT of a new resource."""
    replaced: Answer = Answer(200)
    """To a PUT or PATCH of an existing resource."""
    deleted: Answer = Answer(200, body="")
    """To a DELETE of an existing resource."""
    missing: tuple[str, str] = ("", "")
    """Code and message of a 404 for a resource; empty for those of Resource Manager. The message
    has {id}, {name} and {above}, the name of the parent."""
    state_at: str = ""
    """Path of the state of an operation, with {subscription}, {group}, {location}, {id} and
    {operation}; empty if there is none."""
    result_at: str = ""
    """Path of its result."""
    result_has_body: bool = True
    """Whether the result of a PUT is the resource."""
    bare: bool = False
    """Whether a DELETE below a missing parent gets the 404 of that parent."""


AnswersByKind: TypeAlias = Mapping[str, Answers]
