"""Errors for users, and errors in Azure's response format."""

from typing import Any

from common.errors import UserError


class RehearsalError(UserError):
    """An error of the rehearsal itself, not of the commands that it runs."""


class AzureError(Exception):
    """An error response of Azure."""

    def __init__(self, status: int, code: str, message: str) -> None:
        """Create an error response.

        Args:
            status: HTTP status.
            code: Azure's error code.
            message: Message for users.
        """
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message

    def body(self) -> dict[str, Any]:
        """Return the error in Resource Manager's format."""
        return {"error": {"code": self.code, "message": self.message, "details": []}}


def resource_not_found(kind: str, name: str, group: str) -> AzureError:
    """Return Resource Manager's 404 for a resource that does not exist."""
    return AzureError(
        404,
        "ResourceNotFound",
        f"The Resource '{kind}/{name}' under resource group '{group}' was not found. For more"
        " details please go to https://aka.ms/ARMResourceNotFoundFix",
    )


def user_error(message: str) -> AzureError:
    """Return Azure Machine Learning's error for an invalid request."""
    return AzureError(400, "UserError", message)
