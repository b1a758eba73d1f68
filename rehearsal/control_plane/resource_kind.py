"""What a kind of resource may decide for itself."""

from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.http_messages import Request, Response
from rehearsal.control_plane.store import Document


class ResourceKind:
    """Rules of one kind of resource. Those of this class hold for kinds that have none."""

    needs_parent = True
    """Whether a PUT is refused if the resource above is not there."""
    lists_without_parent = False
    """Whether a list below a resource that is not there is empty, and not a 404."""
    deleted_later = False
    """Whether a deletion goes on after it was accepted, if deletions take time."""
    has_own_state = False
    """Whether the kind has a state of its own, in place of `provisioningState`."""

    def check(self, path: ArmPath, body: Document, before: Document | None) -> None:
        """Refuse a PUT or PATCH that Azure would refuse, by an AzureError."""

    def complete(self, path: ArmPath, document: Document, before: Document | None) -> None:
        """Fill in what Azure computes, before the document is stored."""

    def after_put(self, path: ArmPath, document: Document) -> None:
        """Do what follows from a document that was stored."""

    def show(self, path: ArmPath, document: Document) -> Document:  # noqa: ARG002
        """The document as it is read."""
        return document

    def delete(self, path: ArmPath, document: Document, request: Request) -> Response:  # noqa: ARG002
        """The response to a DELETE; its resource is removed if the status is 200."""
        return Response(200)

    def after_delete(self, path: ArmPath, document: Document, request: Request) -> None:
        """Do what follows from a document that was removed."""

    def select(
        self,
        path: ArmPath,  # noqa: ARG002
        documents: list[Document],
        request: Request,  # noqa: ARG002
    ) -> list[Document]:
        """The documents of a collection that a GET lists."""
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
