"""Hold the rules against changed stacks: `python -m tests.infra.mutations.run`.

For every input that matters for security, cost or recovery, the run removes it, flips it, widens it
or sets it to somebody else's; it adds inputs, entries and resources that open something; and it
removes resources that guard something. Each mutation names the rule that must catch it. The table
that it prints is the one in docs/platform.md; the exit status is 1 if too few are caught.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from infra.policies import pack
from infra.policies.rule import ResourceRule
from infra.render.render import render
from infra.resources import Resource
from infra.settings import Settings
from infra.stack_config import assign, configuration, with_subscription
from infra.validation import load
from tests.infra.mutations import jump as jump_mutations
from tests.infra.mutations.table import (
    ADDED,
    ELSEWHERE,
    FLIP,
    INPUTS,
    PROTECTED,
    REMOVED,
    STRANGER,
    Absent,
)

MOST: Final = 5
"""Most mutations of one input, so that no input counts for more than the others."""

CAUGHT: Final = 0.97
"""Least share of mutations that the expected rules must catch."""

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
    "serving": True,
    "vault.purge_protection": True,
}
"""The stack that is mutated: production with everything declared."""

HARMLESS: Final[Mapping[str, str]] = {
    "nsg-build: securityRules[0].destinationPortRange = '0-65535'": "it means what * means",
    "nsg-jump: securityRules[3].destinationAddressPrefix = 'Internet'": (
        "another rule lets the jump machine reach it over HTTPS"
    ),
}
"""Mutations that no rule catches, and why that is no harm."""


@dataclass(frozen=True)
class Mutation:
    """One change of a stack."""

    rule: str
    """Name of the rule that must catch it."""
    kind: str
    change: str
    """The resource and the change, such as `vault: properties.sku.name = "premium"`."""
    resources: Sequence[Resource]
    """The changed stack."""


@dataclass(frozen=True)
class Outcome:
    """What the rules found in a mutated stack."""

    mutation: Mutation
    found: frozenset[str]
    """Names of the rules that were violated."""

    @property
    def caught(self) -> bool:
        return self.mutation.rule in self.found


def mutations(resources: Sequence[Resource]) -> Iterator[Mutation]:
    """Yield the mutations of a stack: at most `MOST` of each input, spread over its resources."""
    for kind, rules in {**INPUTS, **jump_mutations.INPUTS}.items():
        declared = [resource for resource in resources if resource.kind == kind]
        for rule, paths in rules.items():
            for path, values in paths.items():
                yield from _spread(
                    [
                        Mutation(rule, kind, f"{resource.name}: {at}", _swap(resources, other))
                        for resource in declared
                        for at, tree in changed(resource.inputs, path.split("."), values)
                        for other in [replace(resource, inputs=tree)]
                    ]
                )
    for kind, rule in {**REMOVED, **jump_mutations.REMOVED}.items():
        yield from _spread(
            [
                Mutation(
                    rule,
                    kind,
                    f"{resource.name}: removed",
                    [other for other in resources if other is not resource],
                )
                for resource in resources
                if resource.kind == kind
            ]
        )
    for resource in resources:
        if resource.kind in PROTECTED and resource.options.get("protect"):
            bare = replace(resource, options={**resource.options, "protect": False})
            change = f"{resource.name}: protect = False"
            yield Mutation("protected", resource.kind, change, _swap(resources, bare))
    for rule, kind, inputs in ADDED:
        extra = Resource(f"azure-native:{kind}", "extra", inputs, {}, f"{ELSEWHERE}/extra")
        yield Mutation(rule, kind, "extra: added", [*resources, extra])


def _spread(candidates: Sequence[Mutation]) -> Sequence[Mutation]:
    """Return at most `MOST` of the mutations, in even steps."""
    if len(candidates) <= MOST:
        return candidates
    return [candidates[index * len(candidates) // MOST] for index in range(MOST)]


def changed(tree: Any, keys: Sequence[str], values: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    """Yield copies of an input with one value changed at a path, each with a description."""
    key, *deeper = keys
    name = key.removesuffix("[]")
    if not isinstance(tree, Mapping):
        return
    current: Any
    for one in list(tree) if name == "*" else [name]:
        current = tree.get(one)
        if key.endswith("[]"):
            for index, item in enumerate(current or ()):
                for text, new in changed(item, deeper, values) if deeper else ():
                    items = [*current[:index], new, *current[index + 1 :]]
                    yield f"{one}[{index}].{text}", {**tree, one: items}
        elif deeper:
            for text, new in changed(current or {}, deeper, values):
                yield f"{one}.{text}", {**tree, one: new}
        else:
            yield from _set(tree, one, values)


def _set(tree: Mapping[str, Any], key: str, values: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    for value in values:
        if value is Absent:
            if key in tree:
                yield f"{key} removed", {one: tree[one] for one in tree if one != key}
        elif tree.get(key) != value and (values is not FLIP or key in tree):
            yield f"{key} = {value!r}", {**tree, key: value}


def _swap(resources: Sequence[Resource], other: Resource) -> list[Resource]:
    return [other if resource.key == other.key else resource for resource in resources]


def run(stack: str, overrides: Mapping[str, object]) -> list[Outcome]:
    """Hold the rules against every mutation of a stack.

    Raises:
        ValueError: the unchanged stack breaks a rule already.
    """
    # A render lists the resources in the order of their registration, which varies.
    resources = sorted(render(stack, overrides), key=lambda resource: resource.key)
    return hold(resources, _settings(stack, overrides))


def hold(resources: Sequence[Resource], settings: Settings) -> list[Outcome]:
    """Hold the rules against every mutation of these resources, rendered or deployed.

    Raises:
        ValueError: the unchanged resources break a rule already.
    """
    broken = pack.check(resources, settings)
    if broken:
        raise ValueError(f"the unchanged stack breaks a rule: {broken[0].message}")
    unchanged = {id(resource) for resource in resources}
    outcomes = []
    for mutation in mutations(resources):
        new = [resource for resource in mutation.resources if id(resource) not in unchanged]
        found = {
            rule.name
            for rule in pack.ALL
            # Rules on single resources have passed the unchanged ones already.
            if any(
                rule.check(new if isinstance(rule, ResourceRule) else mutation.resources, settings)
            )
        }
        outcomes.append(Outcome(mutation, frozenset(found)))
    return outcomes


def _settings(stack: str, overrides: Mapping[str, object]) -> Settings:
    _, values = configuration(stack)
    for key, value in overrides.items():
        values = assign(values, key, value)
    return load(with_subscription(values) | {"stack": stack})


def table(outcomes: Sequence[Outcome]) -> str:
    """Return every rule and how many of its mutations were caught, as a Markdown table."""
    made = Counter(outcome.mutation.rule for outcome in outcomes)
    caught = Counter(outcome.mutation.rule for outcome in outcomes if outcome.caught)
    rows = [
        f"| `{rule.name}` | {rule.description} | {made[rule.name]} | {caught[rule.name]} |"
        for rule in pack.ALL
    ]
    total = f"| all | | {made.total()} | {caught.total()} |"
    head = ["| rule | what it requires | mutations | caught |", "|---|---|---|---|"]
    return "\n".join([*head, *rows, total]) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Print the table and what was not caught; return 1 if too few mutations were caught."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.infra.mutations.run", description=__doc__
    )
    parser.parse_args(arguments)
    outcomes = run(STACK, OVERRIDES)
    print(table(outcomes), end="")
    for outcome in outcomes:
        if not outcome.caught:
            change = outcome.mutation.change
            reason = HARMLESS.get(change, f"not caught by {outcome.mutation.rule}")
            print(f"{change}: {reason}", file=sys.stderr)
    caught = sum(outcome.caught for outcome in outcomes)
    return 0 if caught >= CAUGHT * len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
