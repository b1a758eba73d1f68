"""Notices about runs: sent to a webhook, at least once each.

The address of a webhook is a secret. It comes from the environment, or from a key vault, and is in
no message, tag or log. A notice is recorded as a tag of the attempt after the webhook has accepted
it, so one whose acceptance was lost is sent again, with the same id.
"""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, get_args
from urllib.parse import urlsplit

from azure.core.exceptions import AzureError
from azure.core.rest import HttpRequest

from common.errors import UserError
from jobs.azure.job_body import tagged_body
from jobs.azure.job_records import Job, Jobs
from jobs.azure.requests import Requests, pipeline
from jobs.console import Console
from jobs.errors import RequestError
from jobs.following.supervision_policy import Event
from jobs.spec.tags import NOTIFIED, OUTCOME

ADDRESS_VARIABLE: Final = "JOBS_WEBHOOK"
"""Environment variable with the address of a webhook."""
SECRET_VARIABLE: Final = "JOBS_WEBHOOK_SECRET"  # noqa: S105 a name
"""Environment variable with the URI of a key vault's secret that holds the address."""
FORMAT_VARIABLE: Final = "JOBS_WEBHOOK_FORMAT"
"""Environment variable that says what the webhook expects; the default is json."""

Format = Literal["json", "slack", "teams"]

_TITLES: Final[Mapping[Event, str]] = {
    "completed": "completed",
    "failed": "failed",
    "canceled": "was cancelled",
    "budget": "has used up its budget",
    "interrupted": "was interrupted, and is not submitted again",
    "resubmitted": "is submitted again",
    "unknown": "has ended, but how is unknown",
}


@dataclass(frozen=True)
class Notice:
    """What happened to an attempt of a run."""

    run: str
    attempt: int
    event: Event
    reason: str
    job: str
    stack: str
    page: str | None = None
    """URL of the job's page in Azure ML studio."""

    @property
    def id(self) -> str:
        """Identifies the notice; receivers drop another one with the same id."""
        return f"{self.run}/{self.attempt}/{self.event}"

    @property
    def title(self) -> str:
        return f"{self.run} ({self.stack}) {_TITLES[self.event]}"

    def document(self) -> dict[str, Any]:
        """Return the notice as JSON."""
        return {"id": self.id, "title": self.title, **asdict(self)}

    def payload(self, expected: Format) -> dict[str, Any]:
        """Return the body of the request that a webhook expects.

        Args:
            expected: `json` is `document()`; `slack` is a message of an incoming webhook; `teams`
                is a message with an Adaptive Card, as a webhook of Teams' workflows expects it.
        """
        text = f"{self.job}: {self.reason}"
        if expected == "slack":
            link = f"\n<{self.page}|job page>" if self.page else ""
            return {"text": f"*{self.title}*\n{text}{link}\nid: {self.id}"}
        if expected == "teams":
            return {"type": "message", "attachments": [_card(self, text)]}
        return self.document()


class Webhook:
    """Sends notices to one address.

    Args:
        address: URL with https, or of this machine.
        expected: Format that the webhook expects.

    Raises:
        UserError: The address or the format is invalid; the message does not contain the address.
    """

    def __init__(self, address: str, expected: str = "json") -> None:
        parts = urlsplit(address)
        schemes = {"https"}
        if parts.hostname in {"localhost", "127.0.0.1"}:
            schemes.add("http")
        if not parts.hostname or parts.scheme not in schemes:
            raise UserError(f"{ADDRESS_VARIABLE}: must be a URL that begins with https://")
        if expected not in get_args(Format):
            raise UserError(
                f"{FORMAT_VARIABLE}: {expected!r} must be one of {', '.join(get_args(Format))}"
            )
        self._address, self._format = address, expected
        self._client = pipeline()

    def send(self, notice: Notice) -> None:
        """Send a notice.

        Raises:
            UserError: The webhook did not accept it.
        """
        body = notice.payload(self._format)  # type: ignore[arg-type]
        try:
            response = self._client.send_request(HttpRequest("POST", self._address, json=body))
        except AzureError as error:
            raise UserError(f"notice {notice.id}: no response ({type(error).__name__})") from None
        if response.status_code >= 300:
            raise UserError(f"notice {notice.id}: refused with status {response.status_code}")


def configured_webhook(
    requests: Requests, environment: Mapping[str, str] = os.environ
) -> Webhook | None:
    """Return the webhook that the environment names, or None.

    Raises:
        UserError: The address is invalid, or the secret cannot be read.
    """
    address, secret = environment.get(ADDRESS_VARIABLE), environment.get(SECRET_VARIABLE)
    if address and secret:
        raise UserError(
            f"{ADDRESS_VARIABLE} and {SECRET_VARIABLE} exclude each other; set only one"
        )
    if secret:
        address = requests.secret(secret)
    return Webhook(address, environment.get(FORMAT_VARIABLE, "json")) if address else None


class Notifier:
    """Notifies of what happens to runs, and records it on their attempts.

    Args:
        jobs: Jobs of the workspace.
        webhook: Receives the notices; None sends none.
        stack: Name of the stack, for the notices.
        console: Prints what could not be sent.
    """

    def __init__(self, jobs: Jobs, webhook: Webhook | None, stack: str, console: Console) -> None:
        self._jobs, self._webhook, self._stack, self._console = jobs, webhook, stack, console

    def is_told(self, job: Job) -> bool:
        """Whether nothing is left to record or to send about an attempt that has ended."""
        return NOTIFIED in job.tags if self._webhook else OUTCOME in job.tags

    def tell(self, job: Job, event: Event, reason: str) -> bool:
        """Send a notice about an attempt unless one was sent, and record both as tags.

        Nothing here is worth ending a supervisor for: what could not be sent or recorded is
        printed, and the next look at the run tries again.

        Returns:
            Whether a notice was sent.
        """
        tags, sent = {OUTCOME: event}, False
        if self._webhook is not None and NOTIFIED not in job.tags:
            number = job.attempt.number if job.attempt else 1
            notice = Notice(job.run, number, event, reason, job.name, self._stack, job.page)
            try:
                self._webhook.send(notice)
            except UserError as error:
                self._console.note(f"webhook: {error}")
            else:
                tags[NOTIFIED], sent = event, True
        if not tags.items() <= job.tags.items():
            try:
                # A PUT replaces all tags, also those that were added since.
                newest = self._jobs.get(job.name) or job
                self._jobs.put(job.name, tagged_body(newest, tags))
            except RequestError as error:
                self._console.note(f"{job.name}: its tags cannot be changed: {error}")
        return sent


def _card(notice: Notice, text: str) -> dict[str, Any]:
    page = [{"type": "Action.OpenUrl", "title": "Job page", "url": notice.page}]
    return {
        "contentType": "application/vnd.microsoft.card.adaptive",
        "content": {
            "type": "AdaptiveCard",
            "version": "1.4",
            "body": [
                {"type": "TextBlock", "text": notice.title, "weight": "Bolder", "wrap": True},
                {"type": "TextBlock", "text": text, "wrap": True},
                {"type": "TextBlock", "text": f"id: {notice.id}", "isSubtle": True},
            ],
            "actions": page if notice.page else [],
        },
    }
