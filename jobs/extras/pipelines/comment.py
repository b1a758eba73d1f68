"""`python -m jobs comment`: write a preview as a comment on a pull request.

One comment for each stack: a further preview replaces it. GitHub's REST API, "Issue comments".
"""

import json
import os
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from common.annotations import Bounds, Positional, Required
from common.errors import UserError
from jobs.console import Console
from jobs.errors import RequestError

_PUBLIC: Final = "https://api.github.com"
_SECONDS: Final = 30
_PAGE: Final = 100
"""Comments of a page, the most that GitHub returns."""


@dataclass(frozen=True)
class CommentOptions:
    """Write a file as a comment on a pull request, in place of the comment with the same first
    line. Reads GITHUB_REPOSITORY, GITHUB_TOKEN and GITHUB_API_URL, as a workflow has them.
    """

    page: Annotated[str, Positional("FILE"), Required("`preview --markdown FILE` writes it")] = ""
    """Markdown file, as `preview --markdown FILE` writes it."""

    pull_request: Annotated[int | None, Bounds(at_least=1), Required("such as 7")] = None
    """Number of the pull request."""


def run(options: CommentOptions, *, as_json: bool, stack: str | None) -> int:  # noqa: ARG001
    """Write the comment.

    Raises:
        UserError: The file cannot be read, a variable is missing, or GitHub refuses the request.
    """
    body = Path(options.page).read_text(encoding="utf-8")
    marker = body.partition("\n")[0]
    root = f"{os.environ.get('GITHUB_API_URL', _PUBLIC)}/repos/{_variable('GITHUB_REPOSITORY')}"
    known = _find(f"{root}/issues/{options.pull_request}/comments", marker)
    if known is None:
        written = _send("POST", f"{root}/issues/{options.pull_request}/comments", {"body": body})
    else:
        written = _send("PATCH", f"{root}/issues/comments/{known}", {"body": body})
    url = str(written.get("html_url"))
    Console(as_json=as_json).answer({"comment": url}, f"wrote {url}")
    return 0


def _find(url: str, marker: str) -> int | None:
    """Return the id of the comment that begins with a line; None if there is none."""
    page = 1
    while comments := _send("GET", f"{url}?per_page={_PAGE}&page={page}"):
        for comment in comments:
            if str(comment["body"]).partition("\n")[0].strip() == marker:
                return int(comment["id"])
        page += 1
    return None


def _send(method: str, url: str, body: object = None) -> Any:
    request = Request(  # noqa: S310 - the address is that of GITHUB_API_URL
        url,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Accept": "application/vnd.github+json",
            "Authorization": f"Bearer {_variable('GITHUB_TOKEN')}",
            "Content-Type": "application/json",
        },
    )
    try:
        with urlopen(request, timeout=_SECONDS) as answer:  # noqa: S310
            document = json.load(answer)
    except HTTPError as error:
        raise RequestError(
            f"{method} {url}: GitHub refuses this with status {error.code}; the job needs the"
            " permission pull-requests: write",
            error.code,
        ) from error
    except (OSError, HTTPException, ValueError) as error:
        raise RequestError(f"{method} {url}: no usable response from GitHub ({error})") from error
    if not isinstance(document, list if method == "GET" else dict):
        raise RequestError(f"{method} {url}: no usable response from GitHub ({document!r:.200})")
    return document


def _variable(name: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise UserError(f"{name} is not set; this command is a step of a workflow of GitHub")
    return value
