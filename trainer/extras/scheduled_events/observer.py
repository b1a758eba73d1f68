"""Watches, on one rank of each node, for what Azure announces about its VM."""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final
from urllib.request import ProxyHandler, Request, build_opener

from common.files import write_atomically
from trainer.extras.scheduled_events.event_policy import Reaction, reaction, read_events
from trainer.extras.scheduled_events.leaf import AZURE, NOWHERE, EventOptions
from trainer.loggers.observer import Observed, Observer

FILE: Final = "scheduled-events.json"
"""File of the run's folder that says whether rank 0 could reach the service."""
IMDS: Final = "http://169.254.169.254"
"""Azure's metadata service, which only the VM itself reaches."""
HOST_VARIABLE: Final = "AZURE_POD_IDENTITY_AUTHORITY_HOST"
"""Environment variable by which azure-identity, and this, are sent to another metadata service."""
EVENTS: Final = "/metadata/scheduledevents?api-version=2020-07-01"
NAME: Final = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
POLL_SECONDS: Final = 1.0
TIMEOUT_SECONDS: Final = 5.0
"""Longest wait for an answer. The service may need up to two minutes for its first one."""
LONGEST_PAUSE_SECONDS: Final = 60.0
"""Longest pause between two tries while the service cannot be reached."""


def address_of(options: EventOptions, environment: Mapping[str, str]) -> str | None:
    """Return the address of the metadata service to ask; None if none is asked."""
    if options.address == NOWHERE:
        return None
    if options.address != AZURE:
        return options.address.rstrip("/")
    if "AZUREML_RUN_ID" not in environment:
        return None
    return environment.get(HOST_VARIABLE, IMDS).rstrip("/")


class EventObserver(Observer):
    """Asks all ranks to stop if the node is to be taken; see `Observer`."""

    def __init__(
        self,
        observed: Observed,
        stop: Callable[[], None] = lambda: os.kill(os.getpid(), signal.SIGTERM),
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """Args:
        observed: The attempt.
        stop: Asks all ranks to stop after the current step, as a SIGTERM to this rank does.
        environment: Environment of this rank.
        """
        self._folder, self._rank = observed.folder, observed.communicator.rank
        self._stop, self._ended = stop, threading.Event()
        self._facts: dict[str, Any] = {}
        address = address_of(observed.config.of(EventOptions), environment)
        self._address = address if observed.communicator.local_rank == 0 else None
        self._name: str | None = None
        self._done: dict[str, Reaction] = {}
        """Reactions, by the id of the event."""
        self._thread = threading.Thread(target=self._watch, name="scheduled-events", daemon=True)
        if self._address is not None:
            self._thread.start()

    def begin(self, parameters: Mapping[str, object], tags: Mapping[str, object]) -> None:
        """See `Observer.begin`: the folder of the run exists."""
        del parameters, tags
        self._record()

    def end(self, status: int, *, failed: bool) -> None:
        """See `Observer.end`."""
        del status, failed
        self._ended.set()
        if self._rank == 0 and self._folder.exists():
            self._record()

    def _record(self) -> None:
        if self._facts:
            write_atomically(self._folder / FILE, json.dumps(self._facts, indent=1) + "\n")

    def _watch(self) -> None:
        pause = POLL_SECONDS
        while not self._ended.wait(pause):
            begun = time.monotonic()
            try:
                self._look()
            except (OSError, ValueError) as error:
                self._missed(error)
                pause = min(2 * max(pause, POLL_SECONDS), LONGEST_PAUSE_SECONDS)
            else:
                pause = max(POLL_SECONDS - (time.monotonic() - begun), 0.0)

    def _look(self) -> None:
        events = read_events(json.loads(self._get(EVENTS)))
        if self._name is None:
            self._name = self._own_name()
            self._facts = {"reached": True, "address": self._address, "vm": self._name}
        for event in events:
            what = reaction(event, self._name, datetime.now(UTC))
            if self._done.get(event.id) == what:
                continue
            stops = what == "stop" and "stop" not in self._done.values()
            self._done[event.id] = what
            self._say(event.words(what))
            if stops:
                self._stop()

    def _own_name(self) -> str:
        try:
            return self._get(NAME).strip()
        except (OSError, ValueError):
            # Then every event counts as this node's own.
            return ""

    def _missed(self, error: Exception) -> None:
        """Say once that the service cannot be reached; it may come back."""
        if not self._facts:
            self._facts = {"reached": False, "address": self._address, "error": str(error)}
            self._say(
                f"{self._address} does not tell what Azure announces ({error}); without a notice, a"
                " run whose nodes are taken continues from its newest checkpoint"
            )

    def _get(self, path: str) -> str:
        # A proxy is on another machine, where this address leads elsewhere.
        request = Request(f"{self._address}{path}", headers={"Metadata": "true"})  # noqa: S310
        opener = build_opener(ProxyHandler({}))
        with opener.open(request, timeout=TIMEOUT_SECONDS) as answer:
            return str(answer.read().decode())

    def _say(self, text: str) -> None:
        print(f"rank {self._rank}: {text}", file=sys.stderr, flush=True)
