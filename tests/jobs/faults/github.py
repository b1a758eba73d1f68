"""The part of GitHub's REST API that writes comments, in this process."""

import re
from dataclasses import dataclass, field
from typing import Any, Final

from rehearsal.control_plane.http_messages import Request, Response

HOST: Final = "api.github.com"
COMMENTS: Final = re.compile(r"^/repos/.+/issues/(?:\d+/comments|comments/(\d+))$")
VARIABLES: Final = {"GITHUB_REPOSITORY": "team/platform", "GITHUB_TOKEN": "token-of-a-job"}
"""Variables of a job that writes comments."""


@dataclass
class GitHub:
    """One pull request with its comments."""

    comments: dict[int, str] = field(default_factory=dict)

    def respond(self, request: Request) -> Response:
        """List comments, or write one."""
        match = COMMENTS.search(request.path)
        assert match is not None, request.path
        if request.method == "GET":
            first = request.query["page"] == "1"
            return Response(200, [self._shown(one) for one in self.comments] if first else [])
        number = int(match[1] or 0) or len(self.comments) + 1
        self.comments[number] = str(request.json()["body"])
        return Response(200, self._shown(number))

    def _shown(self, number: int) -> dict[str, Any]:
        url = f"https://github.com/team/platform/pull/7#issuecomment-{number}"
        return {"id": number, "body": self.comments[number], "html_url": url}
