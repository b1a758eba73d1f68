"""What a kind of resource may decide for itself."""

import datetime as dt
import uuid

from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.http_messages import Answer, Asked
from rehearsal.control_plane.store import Document


class Kind:
    """Rules of one kind of resource. Those of this class hold for a kind without any of its own."""

    implied = False
    """Whether the resource above need not be there: it comes with this one."""
    searched = False
    """Whether a list below a resource that is not there is empty, and no 404."""
    slow = False
    """Whether a deletion goes on after it was accepted."""
    accepted = ""
    """State that a PUT leaves; empty where the kind has its own."""

    def check(self, path: ArmPath, body: Document, before: Document | None) -> None:
        """Refuse a PUT or PATCH that Azure would refuse, by an AzureError."""

    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        """Fill in what Azure computes, before the document is stored."""

    def stored(self, path: ArmPath, document: Document) -> None:
        """What follows from a document that was stored."""

    def show(self, path: ArmPath, document: Document) -> Document:  # noqa: ARG002
        """The document as it is read."""
        return document

    def delete(self, path: ArmPath, document: Document, asked: Asked) -> Answer:  # noqa: ARG002
        """Refuse, or say how the deletion is answered."""
        return Answer(200)

    def deleted(self, path: ArmPath, document: Document, asked: Asked) -> None:
        """What follows from a document that is gone."""

    def listed(self, path: ArmPath, found: list[Document], asked: Asked) -> list[Document]:  # noqa: ARG002
        """The documents of a collection that are shown."""
        return found

    def act(self, path: ArmPath, document: Document, action: str, asked: Asked) -> Answer | None:  # noqa: ARG002
        """Answer a POST on the resource, or none if there is no such action."""
        return None


def now() -> str:
    """The time, as Azure writes it."""
    return dt.datetime.now(dt.UTC).isoformat(timespec="microseconds")


def new_id() -> str:
    """A GUID that nobody else has."""
    return str(uuid.uuid4())
