"""Operations that continue after their request was answered."""

import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from rehearsal.control_plane.answers import Answer, Answers
from rehearsal.control_plane.arm_path import ArmPath
from rehearsal.control_plane.azure_formats import new_id, timestamp
from rehearsal.control_plane.http_messages import Request, Response
from rehearsal.errors import AzureError

State: TypeAlias = Literal["InProgress", "Succeeded", "Failed"]

_PLACE: Final = re.compile(
    r"/([a-z]*operations?(?:results?|status(?:es)?)?)/(?:[a-z]+[:-])?([0-9a-f-]{36})",
    re.IGNORECASE,
)
"""End of the path of a state or of a result, with the name of the operation."""


@dataclass
class _Operation:
    due: float
    finish: Callable[[], None]
    state: Callable[[], State]
    result: Callable[[], Any]
    headers: Mapping[str, str]
    began: str = field(default_factory=timestamp)
    ended: str = ""
    taken: bool = False
    """Whether a thread finishes it."""


@dataclass
class Operations:
    """Operations that continue after their request was answered."""

    url: str
    """Address of this Azure."""
    seconds: float = 0.0
    """Duration of each operation; 0 finishes it before its answer, which looks the same."""
    pause: int | None = None
    """Longest Retry-After, in seconds; None for Azure's own."""
    clock: Callable[[], float] = time.monotonic
    """Returns the time in seconds."""
    _operations: dict[str, _Operation] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def accept(
        self,
        path: ArmPath,
        answers: Answers,
        answer: Answer,
        location: str,
        finish: Callable[[], None],
        state: Callable[[], State] = lambda: "Succeeded",
        result: Callable[[], Any] = lambda: None,
    ) -> Mapping[str, str]:
        """Note an operation; return the headers of the answer.

        Args:
            path: The resource.
            answers: Answers of its kind, with the places of operations.
            answer: The answer to the request.
            location: Region of the resource.
            finish: Does the work when the operation ends.
            state: Returns how it has ended; InProgress if the resource is still busy.
            result: Returns the body of its result.
        """
        name = new_id()
        places = {
            "Azure-AsyncOperation": answers.state_at if answer.polled else "",
            "Location": {"result": answers.result_at, "self": path.id, "": ""}[answer.location],
        }
        headers = {
            header: self.url
            + place.format(
                subscription=path.subscription,
                group=path.group,
                location=location or "global",
                id=path.id,
                operation=name,
            )
            + ("&" if "?" in place else "?")
            + f"api-version={path.version or '2024-10-01'}"
            for header, place in places.items()
            if place
        }
        if answer.pause is not None:
            pause = answer.pause if self.pause is None else min(answer.pause, self.pause)
            headers["Retry-After"] = str(pause)
        operation = _Operation(self.clock() + self.seconds, finish, state, result, headers)
        if not self.seconds:
            operation.taken, operation.ended = True, timestamp()
            finish()
        with self._lock:
            self._operations[name] = operation
        return headers

    def finish_due(self) -> None:
        """Finish all operations whose duration is over."""
        with self._lock:
            due = [
                pending
                for pending in self._operations.values()
                if not pending.taken and pending.due <= self.clock()
            ]
            for operation in due:
                operation.taken = True
        # Without the lock: the work takes that of the store, whose holders start operations.
        for operation in due:
            operation.finish()
            operation.ended = timestamp()

    def response(self, request: Request) -> Response | None:
        """Return the state or the result of an operation; None for another path.

        Raises:
            AzureError: there is no such operation.
        """
        match = _PLACE.search(request.path)
        if match is None or match.end() != len(request.path):
            return None
        with self._lock:
            operation = self._operations.get(match[2])
        if operation is None:
            raise AzureError(404, "NotFound", f"There is no operation {match[2]}")
        state = operation.state() if operation.ended else "InProgress"
        place, name = match[1].lower(), request.path.rpartition("/")[2]
        is_state = "status" in place or place == "operations"
        if not is_state or request.query.get("type") == "location":
            if state == "InProgress":
                return Response(202, None, operation.headers)
            return Response(200, operation.result())
        body: dict[str, Any] = {"status": state}
        if state == "Failed":
            message = f"The operation on {request.path} failed."
            body["error"] = {"code": "OperationFailed", "message": message}
        if "machinelearningservices" in request.path.lower() and state != "InProgress":
            body["percentComplete"] = 100.0
        if place.startswith("mfe"):
            body |= {"id": request.path, "name": name, "startTime": operation.began}
            body |= {"endTime": operation.ended} if state != "InProgress" else {}
        is_dns = place.startswith("privatedns")
        if state != "InProgress":
            return Response(200, body)
        headers = {k: v for k, v in operation.headers.items() if is_dns or k == "Retry-After"}
        return Response(202 if is_dns else 200, body, headers)
