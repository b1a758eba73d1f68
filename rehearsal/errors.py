"""Errors for people, and refusals in Azure's own form."""

from typing import Any

from common.errors import UserError


class RehearsalError(UserError):
    """The rehearsal itself cannot run."""


class AzureError(Exception):
    """A refusal, which becomes the response to a request."""

    def __init__(self, status: int, code: str, message: str) -> None:
        """Make a refusal.

        Args:
            status: HTTP status.
            code: Azure's code of the error.
            message: for people.
        """
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message

    def body(self) -> dict[str, Any]:
        """The error as Resource Manager writes it."""
        return {"error": {"code": self.code, "message": self.message, "details": []}}


def resource_not_found(kind: str, name: str, group: str) -> AzureError:
    """404 of Resource Manager for a resource that is not there."""
    return AzureError(
        404,
        "ResourceNotFound",
        f"The Resource '{kind}/{name}' under resource group '{group}' was not found. For more"
        " details please go to https://aka.ms/ARMResourceNotFoundFix",
    )


def user_error(message: str, status: int = 400) -> AzureError:
    """Azure Machine Learning's refusal of what a user asked for."""
    return AzureError(status, "UserError", message)
