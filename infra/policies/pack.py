"""All rules, also as policies that Pulumi's engine evaluates before and after an update.

The engine passes a resource's inputs to the rules on single resources before it creates or updates
the resource. It passes the whole stack only at the end, as outputs, which lack inputs such as a
diagnostic setting's target. The pack therefore records the inputs that it saw, and the rules on a
stack read both. In a preview of new resources some values are not known yet; the SDK then reports
that a policy could not run, and the following update runs it.

With `--refresh` the whole stack includes what only the state has and the deployment deletes: the
engine keeps everything that it has refreshed, until the end. Nothing marks such a resource, but the
engine has not passed its inputs. So the rules on a stack read the resources whose inputs it passed,
which are those that the program declares.

`pulumi policy analyze` presents a state in the same way: inputs, and Azure's answers.
"""

from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
    StackValidationArgs,
    StackValidationPolicy,
)

from infra.resources import Resource
from infra.rules import access, closed_world, governance, invariants, network, own_services
from infra.rules.facts import extended, of_leaves
from infra.rules.rule import Rule, Violation
from infra.settings import Settings

NAME = "private-training-platform"
_TRUNK: tuple[Rule, ...] = (
    *(invariants.NO_PUBLIC_ENDPOINT, network.NO_PUBLIC_ADDRESS, network.CLOSED_SUBNETS),
    *(network.CLOSED_NETWORK_RULES, invariants.NODES_IN_THEIR_SUBNET, network.PRIVATE_ENDPOINTS),
    *(invariants.OWN_NETWORK, own_services.OWN_SERVICES, own_services.OWN_CONTAINERS),
    *(invariants.NO_KEYS, access.NO_OWNER, access.LEAST_PRIVILEGE, access.DUTY_OF_EACH_IDENTITY),
    *(invariants.ENCRYPTED, invariants.RECOVERABLE, invariants.NO_COPIES),
    *(invariants.HIGH_BUSINESS_IMPACT, invariants.CLUSTERS_AS_SET),
    *(governance.PROTECTED, governance.REQUIRED_TAGS, governance.DIAGNOSTICS),
    *(governance.NO_GROUP_LOCK, governance.IN_PLACE, governance.NOTHING_IGNORED),
    *(governance.OWN_IDS, governance.OWN_SUBSCRIPTION, closed_world.COMPLETE),
)
"""In the order in which they are checked and reported."""


def _composed() -> tuple[Rule, ...]:
    """Return the rules of the trunk, with the leaves' rows in their tables, and of the leaves."""
    *rules, declared = map(_with_rows, (*_TRUNK, invariants.AS_DECLARED))
    rules += [rule for facts in of_leaves() for rule in facts.rules]
    return (*rules, closed_world.as_declared(declared, rules), closed_world.ONLY_REVIEWED)


def _with_rows(rule: Rule) -> Rule:
    more = (facts.tables.get(rule.name, {}) for facts in of_leaves())
    return replace(rule, table=extended(rule.table, *more))


ALL = _composed()


def check(resources: Sequence[Resource], settings: Settings) -> list[Violation]:
    """Return every violation of every rule, in the rules' order."""
    return [violation for rule in ALL for violation in rule.check(resources, settings)]


class Inputs:
    """Inputs of every resource that the engine has passed, by URN."""

    def __init__(self) -> None:
        self._of: dict[str, Mapping[str, Any]] = {}

    def remember(self, args: ResourceValidationArgs, _report: ReportViolation) -> None:
        self._of[args.urn] = args.props

    def resources(self, args: StackValidationArgs) -> tuple[list[Resource], dict[str, str]]:
        """Return the resources that the program declares, and their URNs by key.

        An output is read only if there is no input: reading a value that is not known yet ends a
        rule.
        """
        resources, urns = [], {}
        for registered in args.resources:
            if registered.urn not in self._of:
                continue
            needed = [_key(other.resource_type, other.name) for other in registered.dependencies]
            options = {"protect": registered.opts.protect, "dependsOn": needed}
            # Nothing writes to the mappings, which have no type for this.
            inputs = ChainMap[str, Any](self._of[registered.urn], registered.props)  # type: ignore[arg-type]
            resources.append(
                Resource(registered.resource_type, registered.name, inputs, options, "")
            )
            urns[resources[-1].key] = registered.urn
        return resources, urns


def policies(settings: Callable[[str], Settings]) -> list[Policy]:
    """Return every rule as a policy that stops an update.

    Args:
        settings: Function from a stack's name to its settings; called at each check.
    """
    inputs = Inputs()
    remembering = ResourceValidationPolicy(
        "remember-inputs",
        "Reports nothing; records resource inputs for the policies on the whole stack.",
        inputs.remember,
        EnforcementLevel.ADVISORY,
    )
    return [remembering, *(_policy(rule, settings, inputs) for rule in ALL)]


def _policy(rule: Rule, settings: Callable[[str], Settings], inputs: Inputs) -> Policy:
    def validate(args: ResourceValidationArgs, report: ReportViolation) -> None:
        options = {
            "protect": args.opts.protect,
            "ignoreChanges": args.opts.ignore_changes,
            "provider": args.provider.name if args.provider else "",
        }
        resource = Resource(args.resource_type, args.name, args.props, options, "")
        for violation in rule.check([resource], settings(_stack(args.urn))):
            report(violation.message, None)

    def validate_stack(args: StackValidationArgs, report: ReportViolation) -> None:
        resources, urns = inputs.resources(args)
        for violation in rule.check(resources, settings(_stack(args.resources[0].urn))):
            report(violation.message, urns[violation.resource.key] if violation.resource else None)

    mandatory = EnforcementLevel.MANDATORY
    if rule.of_stack is None:
        return ResourceValidationPolicy(rule.name, rule.description, validate, mandatory)
    return StackValidationPolicy(rule.name, rule.description, validate_stack, mandatory)


def _stack(urn: str) -> str:
    """Return the stack's name in `urn:pulumi:STACK::PROJECT::TYPE::NAME`."""
    return urn.removeprefix("urn:pulumi:").split("::", 1)[0]


def _key(type_: str, name: str) -> str:
    return Resource(type_, name, {}, {}, "").key
