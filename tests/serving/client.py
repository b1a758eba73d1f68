"""A client of the scoring server, and load from several of them."""

import base64
import http.client
import json
import threading
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Answer:
    """An answer of the server."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)


def ask(
    port: int,
    body: bytes | Iterable[bytes] | None = b"",
    kind: str | None = None,
    *,
    method: str = "POST",
    path: str = "/score",
    timeout: float = 60,
) -> Answer:
    """Send a request on a connection of its own."""
    connection = http.client.HTTPConnection(HOST, port, timeout=timeout)
    try:
        connection.request(method, path, body, {"Content-Type": kind} if kind else {})
        response = connection.getresponse()
        return Answer(response.status, dict(response.getheaders()), response.read())
    finally:
        connection.close()


def multipart(files: dict[str, bytes]) -> tuple[bytes, str]:
    """Body and type of a form with a file for each name."""
    boundary = uuid.uuid4().hex
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="images"; filename="{name}"\r\n'
        f"Content-Type: image/png\r\n\r\n".encode()
        + content
        + b"\r\n"
        for name, content in files.items()
    ]
    return b"".join([*parts, f"--{boundary}--\r\n".encode()]), (
        f"multipart/form-data; boundary={boundary}"
    )


def instances(images: list[bytes]) -> bytes:
    """TensorFlow Serving's row form."""
    return json.dumps(
        {"instances": [{"b64": base64.b64encode(image).decode()} for image in images]}
    ).encode()


@dataclass
class Load:
    """Requests of several clients for one image each, one after the other."""

    port: int
    images: dict[str, bytes]
    right: dict[str, str]
    """Class of each image."""
    clients: int
    answered: int = 0
    wrong: list[str] = field(default_factory=list)
    failed: list[float] = field(default_factory=list)
    """Time of each request that ended without an answer."""
    stopped: threading.Event = field(default_factory=threading.Event)

    def run(self, client: int) -> None:
        names = list(self.images)
        number = client
        while not self.stopped.is_set():
            name = names[number % len(names)]
            number += self.clients
            try:
                answer = ask(self.port, self.images[name])
            except (OSError, http.client.HTTPException):
                self.failed.append(time.monotonic())
                continue
            found = answer.data["classes"][0]["class_name"] if answer.status == 200 else None
            if found == self.right[name]:
                self.answered += 1
            else:
                self.wrong.append(f"{name}: {answer.status} {found}")

    def __enter__(self) -> Self:
        self.threads = [
            threading.Thread(target=self.run, args=(client,)) for client in range(self.clients)
        ]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        for thread in self.threads:
            thread.join()
