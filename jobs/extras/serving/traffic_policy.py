"""Which deployment of an endpoint gets which part of its requests. Pure, standard library only.

Azure demands that the percentages of live traffic sum to 100 or 0. A copy of at most half of the
requests can go to one deployment without live traffic, whose answers no caller gets (Azure Machine
Learning, "Perform safe rollout of new deployments").
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from common.errors import ProblemsError


class TrafficError(ProblemsError):
    """Traffic cannot be divided as requested."""

    subject = "traffic"


@dataclass(frozen=True)
class Traffic:
    """How an endpoint's requests are divided."""

    live: Mapping[str, int] = field(default_factory=dict)
    """Percentages by deployment; without those of zero."""
    mirror: Mapping[str, int] = field(default_factory=dict)
    """Percentages of requests that are copied to a deployment."""

    def __str__(self) -> str:
        """Return the traffic as one word or several, such as blue=90,green=10."""
        live = ",".join(f"{name}={part}" for name, part in sorted(self.live.items()))
        mirror = ",".join(f"{name}+{part}" for name, part in sorted(self.mirror.items()))
        return ",".join(part for part in (live, mirror) if part) or "none"


def parse(text: str) -> Traffic | None:
    """Read what `str` of a `Traffic` wrote; None if it is something else."""
    live, mirror = dict[str, int](), dict[str, int]()
    if text == "none":
        return Traffic()
    for part in text.split(","):
        sign = "+" if "+" in part else "="
        name, _, number = part.partition(sign)
        if not name or not number.isdecimal():
            return None
        (mirror if sign == "+" else live)[name] = int(number)
    return Traffic(live, mirror)


def give(
    now: Traffic, deployments: Collection[str], to: str, percent: int, mirror: int = 0
) -> Traffic:
    """Return the traffic after one deployment gets a part of it.

    The others share the rest in the proportions that they have now, rounded so that all parts sum
    to 100.

    Args:
        now: Current traffic.
        deployments: Existing deployments.
        to: Deployment to give traffic to.
        percent: Its percentage of live requests, from 0 to 100.
        mirror: Percentage of requests that are copied to it instead, from 0 to 50.

    Raises:
        TrafficError: The parts contradict each other, or there is no such deployment.
    """
    problems = []
    if to not in deployments:
        known = ", ".join(sorted(deployments)) or "none"
        problems.append(f"--to: there is no deployment {to!r}; deployments: {known}")
    if percent and mirror:
        problems.append(
            "--mirror: a deployment gets live requests or copies, not both; leave out --traffic or"
            " --mirror"
        )
    others = {
        name: part for name, part in now.live.items() if name != to and part and name in deployments
    }
    if 0 < percent < 100 and not others:
        problems.append(
            f"--traffic: no other deployment could get the remaining {100 - percent} %; only 0 or"
            " 100 is possible"
        )
    if now.live.get(to) == 100 and percent == 0:
        problems.append(
            f"--to: {to} answers all requests; give its traffic to another deployment first"
        )
    if mirror and not others:
        problems.append("--mirror: no deployment answers requests that could be copied")
    if problems:
        raise TrafficError(problems)
    live = {to: percent} if percent else {}
    live |= _shared(others, 100 - percent)
    mirrored = {name: part for name, part in now.mirror.items() if name not in {to, *live}}
    return Traffic(live, {to: mirror} if mirror else mirrored)


def without(now: Traffic, deployment: str) -> Traffic:
    """Return the traffic of an endpoint that loses a deployment, which must answer no requests.

    Raises:
        TrafficError: It answers live requests.
    """
    part = now.live.get(deployment, 0)
    if part:
        raise TrafficError(
            [
                f"--deployment: {deployment} answers {part} % of the requests; give them to another"
                " deployment first, or delete the whole endpoint"
            ]
        )
    return Traffic(
        now.live, {name: part for name, part in now.mirror.items() if name != deployment}
    )


def back(before: Traffic | None, deployments: Collection[str]) -> Traffic:
    """Return the traffic before the last change, to roll back to.

    Raises:
        TrafficError: It is unknown, or a deployment of it is gone.
    """
    if before is None or not before.live:
        raise TrafficError(["--back: no earlier traffic of this endpoint is known; use --to"])
    gone = sorted({*before.live, *before.mirror} - {*deployments})
    if gone:
        raise TrafficError(
            [f"--back: {', '.join(gone)} had traffic before and was deleted since; use --to"]
        )
    return before


def _shared(parts: Mapping[str, int], total: int) -> dict[str, int]:
    """Divide a total in the proportions of parts, by largest remainders."""
    whole = sum(parts.values())
    if not whole or not total:
        return {}
    shares = {name: divmod(part * total, whole) for name, part in parts.items()}
    left = total - sum(share for share, _ in shares.values())
    by_remainder = sorted(shares, key=lambda name: (-shares[name][1], name))
    more = set(by_remainder[:left])
    rounded = {name: share + (name in more) for name, (share, _) in shares.items()}
    return {name: share for name, share in rounded.items() if share}
