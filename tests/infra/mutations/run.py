"""Check the rules on changed stacks: `python -m tests.infra.mutations.run [--stack STACK]`.

Every input of a stack is changed and removed, every resource removed, every grant widened.
Mutations that no rule catches must be in `survivors`, with the reason why they do no harm. Without
`--stack` the run is on a stack of the tests with everything declared, whose table is
docs/reference/rules.md; with it, on a stack as its file describes it.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from infra.policies import pack
from infra.policies.stack import settings_of as settings_of_file
from infra.render.render import render
from infra.resources import Resource
from infra.settings import Settings
from tests.infra.mutations.generate import ELSEWHERE, STRANGER, Mutation, mutations
from tests.infra.mutations.survivors import HARMLESS
from tests.infra.support.stacks import rendered, settings_of

STACK: Final = "prod"
OVERRIDES: Final[Mapping[str, object]] = {
    "access.jump_machine": True,
    "access.users": STRANGER[:-1] + "4",
    "access.administrators": STRANGER[:-1] + "5",
    "access.public_key": f"ssh-ed25519 {'A' * 68}",
    "access.repository": "https://github.com/example/ml-azure-horovod.git",
    "access.bastion_allowed_addresses": ["52.174.12.7"],
    "profile": "allowlisted",
    "allowed_addresses": ["52.174.12.7"],
    "encryption.customer_managed_keys": True,
    "monitoring.application_insights": True,
    "monitoring.private_link": True,
    "network.flow_logs_to": f"{ELSEWHERE}/providers/Microsoft.Storage/storageAccounts/audit",
    "network.jump_subnet": True,
    "network.peer_with": [f"{ELSEWHERE}/providers/Microsoft.Network/virtualNetworks/hub"],
    "network.peer_address_spaces": ["10.0.0.0/16"],
    "people.publishers": STRANGER[:-1] + "1",
    "people.scientists": STRANGER[:-1] + "2",
    "people.operators": STRANGER[:-1] + "3",
    "people.existing_clusters_only": True,
    "serving": True,
    "vault.purge_protection": True,
}
"""A stack with everything declared."""


@dataclass(frozen=True)
class Outcome:
    """The findings of the rules in a mutated stack."""

    mutation: Mutation
    rule: str | None
    """Name of the first rule that was violated; None if no rule was."""

    @property
    def text(self) -> str:
        """Kind, path and change, as the expressions of `survivors` match them."""
        return f"{self.mutation.place}: {self.mutation.change}"

    @property
    def reason(self) -> str | None:
        """Why a mutation that no rule catches does no harm; None if no reason is listed."""
        return next((why for row, why in HARMLESS.items() if re.fullmatch(row, self.text)), None)


def hold(
    resources: Sequence[Resource], settings: Settings, kinds: Collection[str] = ()
) -> list[Outcome]:
    """Check the rules on every mutation of these resources, rendered or deployed.

    Args:
        resources: The resources of a stack.
        settings: Its settings.
        kinds: Kinds of resources that are changed; empty for all.

    Raises:
        ValueError: the unchanged resources break a rule already.
    """
    # A render lists the resources in the order of their registration, which varies.
    resources = sorted(resources, key=lambda resource: resource.key)
    broken = pack.check(resources, settings)
    if broken:
        raise ValueError(f"the unchanged stack breaks a rule: {broken[0].message}")
    return [
        Outcome(one, _caught(one, settings))
        for one in mutations(resources)
        if not kinds or one.kind in kinds
    ]


def _caught(mutation: Mutation, settings: Settings) -> str | None:
    new = [] if mutation.changed is None else [mutation.changed]
    for rule in pack.ALL:
        # Rules on single resources have passed the unchanged ones already.
        seen = new if rule.of_stack is None else mutation.resources
        if any(rule.check(seen, settings)):
            return rule.name
    return None


def table(outcomes: Sequence[Outcome]) -> str:
    """Return every rule and how many mutations it was the first to catch, as a Markdown table."""
    caught = Counter(one.rule for one in outcomes if one.rule is not None)
    rows = [f"| `{rule.name}` | {rule.description} | {caught[rule.name]} |" for rule in pack.ALL]
    missed = [one for one in outcomes if one.rule is None]
    return (
        "\n".join(
            [
                "| rule | what it requires | mutations caught |",
                "|---|---|---|",
                *rows,
                f"| all | | {caught.total()} of {len(outcomes)} |",
                f"| none | harmless, each with a reason in `tests/infra/mutations/survivors.py` | "
                f"{len(missed)} |",
            ]
        )
        + "\n"
    )


def main(arguments: Sequence[str]) -> int:
    """Print the table and the missed mutations; return 1 if one has no reason."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.infra.mutations.run", description=__doc__
    )
    parser.add_argument("--stack", help="check this stack, as its file describes it")
    options = parser.parse_args(arguments)
    outcomes = (
        hold(render(options.stack, {}), settings_of_file(options.stack))
        if options.stack
        else hold(rendered(STACK, **OVERRIDES), settings_of(STACK, **OVERRIDES))
    )
    print(table(outcomes), end="")
    harmful = [one for one in outcomes if one.rule is None and one.reason is None]
    for one in harmful:
        print(f"no rule catches {one.text}", file=sys.stderr)
    return 1 if harmful else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
