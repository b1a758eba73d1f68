"""Decide whether a failed deployment is repeated: Azure refuses some operations for minutes only.

Pure. Pulumi continues a repeated deployment where it stopped. Retrying one resource inside a
deployment would not do: a private endpoint that Azure has begun to create exists, and azure-native
refuses to create what exists; Pulumi updates it only in the next deployment.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jobs.pulumi.refusals import Refusal, explain
from jobs.pulumi.state import unversioned

LIMIT_SECONDS: Final = 900
"""Seconds from a resource's first refusal after which it is not repeated any more."""
FIRST_PAUSE: Final = 10.0
LONGEST_PAUSE: Final = 60.0

_CONSEQUENCES: Final = re.compile(r"update failed|.*\bcontext canceled", re.DOTALL)
"""Messages of Pulumi that follow from another failure: its last one, and those of resources that
were under way when it stopped, such as "failed to run policy: context canceled"."""
_COLOR: Final = re.compile(r"<\{%[^%]*%\}>")
"""Mark-up of Pulumi's colors, which its events contain if its output is a terminal."""


@dataclass(frozen=True)
class Failure:
    """An operation on a resource that Azure refused, or another error of a deployment."""

    urn: str
    """URN of the resource in Pulumi; empty for an error of no resource."""
    message: str

    @property
    def name(self) -> str:
        """Type and name of the resource in the program."""
        return f"{self._type} {self.urn.rpartition('::')[2]}"

    @property
    def passing(self) -> str | None:
        """Why the operation may succeed later; None if no time helps."""
        known = self._refusal
        return known.reason(self.message) if known is not None and known.passes else None

    @property
    def cure(self) -> str | None:
        """Its meaning and its remedy, if no time cures it; None if it is not a known one."""
        known = self._refusal
        return None if known is None or known.passes else known.explanation(self.message)

    @property
    def _refusal(self) -> Refusal | None:
        return explain(self._type.removeprefix("azure-native:"), self.message)

    @property
    def _type(self) -> str:
        return unversioned(self.urn.rpartition("::")[0].rpartition("::")[2].rpartition("$")[2])


def failures(events: Iterable[str]) -> list[Failure]:
    """Return the errors among Pulumi's events, each of which is a line of JSON, without those that
    follow from others.

    A line other than an event, such as the last one of a killed Pulumi, is left out.
    """
    found = []
    for said in _read(events, "diagnosticEvent"):
        message = _COLOR.sub("", str(said.get("message", ""))).strip()
        if said.get("severity") == "error" and not _CONSEQUENCES.fullmatch(message):
            found.append(Failure(str(said.get("urn") or ""), message))
    return found


def ended_with_preview(events: Iterable[str]) -> bool:
    """Return whether the last thing that Pulumi completed is a preview."""
    previews = [bool(summary.get("isPreview")) for summary in _read(events, "summaryEvent")]
    return previews[-1:] == [True]


def _read(events: Iterable[str], kind: str) -> Iterator[Mapping[str, Any]]:
    for line in events:
        try:
            said = json.loads(line).get(kind)
        except (ValueError, AttributeError):
            continue
        if said is not None:
            yield said


def waiting(failed: Sequence[Failure]) -> dict[str, str]:
    """Return why each failed resource may succeed later, by its name; empty if any may not."""
    reasons = {failure.name: failure.passing for failure in failed}
    passing = {name: why for name, why in reasons.items() if why is not None}
    return passing if len(passing) == len(reasons) else {}


def advice(failed: Sequence[Failure]) -> str:
    """Return what to do about the failures that are known, one line for each cure."""
    names: dict[str, list[str]] = {}
    for one in failed:
        if one.cure is not None:
            names.setdefault(one.cure, []).append(one.name)
    return "".join(f"\n{', '.join(those)}: {cure}" for cure, those in names.items())
