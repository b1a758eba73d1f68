"""The metrics of a run as JSON lines."""

import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any

from common.files import parse_json, write_atomically
from trainer.errors import FULL, warn


class MetricsFile:
    """metrics.jsonl: one JSON object per line, in the order of steps, appended by rank 0."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._warned = False

    def attempts(self) -> int:
        """Return how many times the run was started."""
        return sum(line["event"] == "start" for line in self.lines())

    def environment(self) -> dict[str, Any] | None:
        """Return the machine and versions of the newest attempt, or None before the first."""
        starts = [line for line in self.lines() if line["event"] == "start"]
        return starts[-1].get("environment") if starts else None

    def lines(self) -> list[dict[str, Any]]:
        """Return all complete lines; a killed writer may leave half a line at the end."""
        if not self.path.exists():
            return []
        lines = []
        for text in self.path.read_text().splitlines():
            try:
                lines.append(parse_json(text))
            except ValueError:
                continue
        return lines

    def rewind(self, step: int) -> None:
        """Drop lines that a lost attempt wrote after the step that the run continues from."""
        lines = [line for line in self.lines() if line["event"] == "start" or line["step"] <= step]
        write_atomically(self.path, "".join(json.dumps(line) + "\n" for line in lines))

    def append(self, event: str, step: int, values: Mapping[str, Any]) -> None:
        """Append a line without values that are not finite, which JSON cannot represent. If the
        disk is full, the line is lost, with a warning for the first one.
        """
        finite = {k: v for k, v in values.items() if not isinstance(v, float) or isfinite(v)}
        line = json.dumps({"event": event, "step": step, "time": time.time(), **finite}) + "\n"
        size = self.path.stat().st_size if self.path.exists() else 0
        try:
            with self.path.open("a") as file:
                file.write(line)
        except OSError as error:
            # Other files are named after the number of starts.
            if error.errno not in FULL or event == "start":
                raise
            # The next line must not follow a part of this one.
            with suppress(OSError):
                os.truncate(self.path, size)
            if not self._warned:
                warn(f"{self.path}: lines are lost ({error.strerror}); training continues")
            self._warned = True
