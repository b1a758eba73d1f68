"""What a commissioning has found so far: a file that is written after every step."""

import json
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from common.errors import UserError
from common.files import write_atomically
from jobs.errors import FateUnknownError, RequestError

State = Literal["begun", "as expected", "different"]


@dataclass(frozen=True)
class Fact:
    """What a step has found, and when."""

    state: State
    at: str
    """Time in UTC as in ISO 8601."""
    found: str = ""
    guess: bool | None = None
    """Whether the step's guess was right; None if that was not seen."""
    status: int | None = None
    """Exit status of its command."""
    seconds: float = 0.0
    notes: str = ""
    """Last lines of what its command has printed."""


@dataclass
class Record:
    """Facts by the names of their steps."""

    path: Path
    facts: dict[str, Fact] = field(default_factory=dict)
    earlier: list[dict[str, Any]] = field(default_factory=list)
    """Facts that were replaced when their step was repeated, oldest first."""

    @classmethod
    def read(cls, path: Path) -> "Record":
        """Read a file; one that does not exist has no facts.

        Raises:
            UserError: The file is something else.
        """
        if not path.exists():
            return cls(path)
        try:
            data = json.loads(path.read_text(encoding="utf-8"))
            facts = {name: Fact(**fact) for name, fact in data["facts"].items()}
            return cls(path, facts, list(data["earlier"]))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UserError(f"{path}: is no record of a commissioning ({error!r})") from error

    def tries(self) -> Counter[str]:
        """Return how often each step was different, but for tries whose job may still run."""
        told = [*self.earlier, *({"step": name, **asdict(one)} for name, one in self.facts.items())]
        open_ended = (RequestError.exit_code, FateUnknownError.exit_code)
        return Counter(
            one["step"]
            for one in told
            if one["state"] == "different" and one["status"] not in open_ended
        )

    def set(self, name: str, fact: Fact) -> None:
        """Note a fact, and write the file."""
        before = self.facts.get(name)
        if before is not None and before.state != "begun":
            self.earlier.append({"step": name, **asdict(before)})
        self.facts[name] = fact
        self.path.parent.mkdir(parents=True, exist_ok=True)
        facts = {key: asdict(value) for key, value in self.facts.items()}
        write_atomically(self.path, json.dumps({"facts": facts, "earlier": self.earlier}, indent=1))
