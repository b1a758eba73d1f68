"""The roles of a stack, without Azure: `python -m infra.render.roles STACK`.

Those that the stack assigns are a table. With `roles: existing`, the owner of the subscription
assigns them: a table, the same as JSON, or a script for the owner. The script looks up what Azure
decides, the principals of the stack's identities and the GUID of its workspace, when it runs. It
can run again at any time: the names of the assignments are fixed, and Azure accepts an equal one
twice.
"""

import argparse
import json
import re
import shlex
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import pulumi

from infra.catalog import resource_ids
from infra.catalog import roles as role_names
from infra.errors import PlatformError
from infra.render import mocks
from infra.render.render import Rendered, overrides_of, run
from infra.resources import (
    ASSIGNMENT,
    DEFINITION,
    IDENTITY,
    WORKSPACE,
    Resource,
    input_at,
    of_kind,
)

_GUID: Final = re.compile(r"-?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-?")
GUID: Final = "WORKSPACE_GUID"
"""Stands for the workspace's GUID, which Azure chooses, in the names of two containers."""

_HEAD: Final = """\
#!/bin/bash
# Assigns the roles of stack {stack}, which declares none itself. Run it with the Azure CLI, as a
# user who may assign roles on the scopes below, after each `make up STACK={stack}` that asks for
# it. Resources that do not exist yet are left out, and assigned by a later run.
set -euo pipefail
left_out=0

principal_of() {{
  az identity show --ids "$1" --query principalId --output tsv 2>/dev/null || true
}}

# GROUP GUID DEFINITION
define() {{
  az rest --method put --body "$3" --output none --url \
    "https://management.azure.com$1/providers/Microsoft.Authorization/roleDefinitions/$2?api-version=2022-04-01"
}}

# NAME PRINCIPAL TYPE ROLE SCOPE [CONDITION]
assign() {{
  if [ -z "$2" ] || ! az resource show --ids "$5" --output none 2>/dev/null; then
    echo "left out, as it does not exist yet: $4 on $5"
    left_out=$((left_out + 1))
    return
  fi
  az role assignment create --name "$1" --assignee-object-id "$2" --assignee-principal-type "$3" \\
    --role "$4" --scope "$5" ${{6:+--condition "$6" --condition-version 2.0}} --output none
  echo "assigned: $4 on $5"
}}
"""
_TAIL: Final = """
if [ "$left_out" -gt 0 ]; then
  echo "$left_out left out: run this again after the next make up STACK={stack}"
fi
"""


def needed(rendered: Rendered) -> list[dict[str, str]]:
    """Return the assignments that a stack needs and does not declare, in the order of deployment.

    Raises:
        ValueError: it assigns its roles itself.
    """
    if not rendered.roles:
        raise ValueError(
            "this stack assigns its roles itself; `roles: existing` in its settings leaves them to"
            " the owner of the subscription"
        )
    [workspace] = of_kind(rendered.resources, WORKSPACE)
    guid = mocks.guid(workspace.id)
    return [
        {key: str(one[key]).replace(guid, GUID) for key in one if key != "principal_id"}
        | {"principal_id": "" if one["identity"] else one["principal_id"]}
        | {"workspace": workspace.id}
        for one in rendered.roles
    ]


def declared(resources: Sequence[Resource]) -> str:
    """Return the roles that a stack assigns as a table in Markdown, by identity and group."""
    identities = {one.key: resource_ids.name(one.id) for one in of_kind(resources, IDENTITY)}
    names = role_names.NAMES | {
        str(input_at(one, "roleDefinitionId")): str(input_at(one, "roleName"))
        for one in of_kind(resources, DEFINITION)
    }
    held: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for assignment in of_kind(resources, ASSIGNMENT):
        needed = assignment.options.get("dependsOn", ())
        group = f"group {input_at(assignment, 'principalId')}"
        holder = next((identities[key] for key in needed if key in identities), group)
        role = resource_ids.name(str(input_at(assignment, "roleDefinitionId")))
        scope = _GUID.sub("", resource_ids.name(str(input_at(assignment, "scope"))))
        limited = " (with a condition)" if input_at(assignment, "condition") else ""
        held[holder][names.get(role, role)].add(f"`{scope}`{limited}")
    rows = [
        f"| {holder} | {role} | {', '.join(sorted(scopes))} |"
        for holder, by_role in sorted(held.items())
        for role, scopes in sorted(by_role.items())
    ]
    return "\n".join(["| who | role | on |", "|---|---|---|", *rows]) + "\n"


def table(assignments: Sequence[Mapping[str, str]]) -> str:
    """Return the assignments as a table: who, which role, on what, under which condition."""
    rows = [("to", "role", "on")]
    notes: dict[str, int] = {}
    for one in assignments:
        who = resource_ids.name(one["identity"]) if one["identity"] else _people(one)
        mark = ""
        if one["condition"]:
            mark = f" [{notes.setdefault(one['condition'], len(notes) + 1)}]"
        rows.append((who, one["role"] + mark, one["scope"]))
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    lines = [f"{who:{widths[0]}}  {role:{widths[1]}}  {scope}" for who, role, scope in rows]
    lines += [f"[{number}] with the condition {text}" for text, number in notes.items()]
    return "\n".join(lines)


def script(stack: str, assignments: Sequence[Mapping[str, str]]) -> str:
    """Return a script of bash that makes the assignments with the Azure CLI."""
    return "\n".join([_HEAD.format(stack=stack), *_lines(assignments), _TAIL.format(stack=stack)])


def _lines(assignments: Sequence[Mapping[str, str]]) -> Iterator[str]:
    workspace = assignments[0]["workspace"]
    # Without a sign-in nothing would be found, as if nothing existed yet.
    yield (
        f"az account get-access-token --subscription {resource_ids.parts(workspace)[0]}"
        " --output none"
    )
    yield (
        f"workspace_guid=$(az resource show --ids {shlex.quote(workspace)} "
        "--query properties.workspaceId --output tsv 2>/dev/null || true)"
    )
    identities = dict.fromkeys(one["identity"] for one in assignments if one["identity"])
    for number, identity in enumerate(identities, 1):
        yield f"principal_{number}=$(principal_of {shlex.quote(identity)})"
    own = {one["role_id"]: one["definition"] for one in assignments if one["definition"]}
    for guid, definition in own.items():
        [group] = json.loads(definition)["properties"]["assignableScopes"]
        yield f"define {shlex.quote(group)} {guid} {shlex.quote(definition)}"
    numbers = {identity: number for number, identity in enumerate(identities, 1)}
    for one in assignments:
        principal = (
            f'"$principal_{numbers[one["identity"]]}"' if one["identity"] else one["principal_id"]
        )
        role = one["role_id"] if one["definition"] else shlex.quote(one["role"])
        words = [one["name"], principal, one["principal_type"], role]
        words.append(f'"{one["scope"]}"'.replace(GUID, "$workspace_guid"))
        words += [shlex.quote(one["condition"])] if one["condition"] else []
        yield f"assign {' '.join(words)}"


def _people(one: Mapping[str, str]) -> str:
    return f"group {one['principal_id']}"


def main(arguments: Sequence[str]) -> int:
    """Print the roles of a stack; return 2 if its configuration is wrong."""
    parser = argparse.ArgumentParser(prog="python -m infra.render.roles", description=__doc__)
    parser.add_argument("stack", help="name of the stack, configured in Pulumi.STACK.yaml")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="changes")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--script", action="store_true", help="print a script for the Azure CLI")
    form.add_argument("--json", action="store_true", help="print JSON, for another tool")
    options = parser.parse_args(arguments)
    try:
        rendered = run(options.stack, overrides_of(options.changes))
        if not (rendered.roles or options.script or options.json):
            print(declared(rendered.resources), end="")
            return 0
        found = needed(rendered)
    except (PlatformError, pulumi.RunError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if options.script:
        print(script(options.stack, found))
    else:
        print(json.dumps(found, indent=2) if options.json else table(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
