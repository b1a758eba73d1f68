"""The base class for rules of one kind of resource."""

from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.http_messages import Request, Response
from rehearsal.control_plane.store import Document


class ResourceKind:
    """Rules of one kind of resource. This class has the defaults."""

    needs_parent = True
    """Whether a PUT is refused if the parent resource does not exist."""
    lists_without_parent = False
    """Whether a list below a missing parent is empty instead of a 404."""
    has_own_state = False
    """Whether the kind has its own state property instead of `provisioningState`."""

    def check(self, path: ArmPath, body: Document, before: Document | None) -> None:
        """Raise an AzureError for a PUT or PATCH that Azure would refuse."""

    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        """Set what Azure computes, before the document is stored."""

    def after_put(self, path: ArmPath, document: Document) -> None:
        """Apply the consequences of a stored document."""

    def show(self, path: ArmPath, document: Document) -> Document:  # noqa: ARG002
        """Return the document as a GET shows it."""
        return document

    def takes_time(self, path: ArmPath, document: Document, *, ends: bool) -> bool:  # noqa: ARG002
        """Whether a change of a resource, or its end, continues after the answer, where the kind's
        does.
        """
        return True

    def check_delete(self, path: ArmPath, document: Document, request: Request) -> None:
        """Raise an AzureError for a DELETE that Azure would refuse."""

    def purge(self, path: ArmPath, request: Request) -> bool:  # noqa: ARG002
        """Purge a deleted resource, if a DELETE asks for it; return whether there was one."""
        return False

    def after_delete(self, path: ArmPath, document: Document, request: Request) -> None:
        """Apply the consequences of a removed document."""

    def select(
        self,
        path: ArmPath,  # noqa: ARG002
        documents: list[Document],
        request: Request,  # noqa: ARG002
    ) -> list[Document]:
        """Return the documents of a collection that a GET lists."""
        return documents

    def act(
        self,
        path: ArmPath,  # noqa: ARG002
        document: Document,  # noqa: ARG002
        action: str,  # noqa: ARG002
        request: Request,  # noqa: ARG002
    ) -> Response | None:
        """Respond to a POST on the resource; None if the kind has no such action."""
        return None
