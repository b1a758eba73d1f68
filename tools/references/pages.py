"""The pages of docs/reference/: a row each, a function that returns its text."""

import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final, cast

from common.fields import read
from common.program import Program
from infra.catalog import network_rules
from infra.catalog.network_rules import Rule, ServiceTraffic, Surroundings
from infra.leaves import LEAVES, SETTINGS
from infra.outputs import PlatformOutputs
from jobs.cli import PROGRAM as JOBS
from jobs.cli import PlatformOptions
from tools.references import facts
from tools.references.documented import Field, Group, groups
from tools.references.schemas import SCHEMAS
from trainer.cli import PROGRAM as TRAINER
from trainer.config import TrainConfig
from trainer.presets import EXPECTATIONS, PRESETS

ROOT: Final = Path(__file__).resolve().parents[2]
MADE: Final = "<!-- `make -C tools references` writes this page from the code. -->\n\n"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join("| " + " | ".join(map(_cell, line)) + " |\n" for line in lines)


def settings() -> str:
    """Return the page of the settings of a stack."""
    parts = [
        "# Settings of a stack\n",
        "The settings of a stack are in `Pulumi.STACK.yaml`, each below `ml-azure-horovod:`. "
        "`make render STACK=dev` reads and checks them without Azure; an unknown key or a value "
        "that is invalid is an error. "
        'A "yes" under "change" means that `make up` changes the resource of a deployed stack in '
        "place, as far as the program and [the simulator](../rehearse-without-azure.md) tell; "
        "[not tested on Azure](../tested.md).\n",
    ]
    for group in groups(SETTINGS):
        rows = [
            (f"`{field.key}`", _type(field), _default(field), field.effect, _change(field))
            for field in group.fields
            if field.key != "stack"
        ]
        if rows:
            heading = _heading(group) if group.key else "## General\n"
            parts += [heading, table(_SETTING_HEADS, rows)]
    return "\n".join(parts)


def outputs() -> str:
    """Return the page of a stack's outputs."""
    parts = [
        "# Outputs of a stack\n",
        "`pulumi stack output NAME --stack STACK` prints an output. None is a secret.\n",
        table(
            ("output", "read by", "content"),
            ((f"`{name}`", *row) for name, row in facts.OUTPUTS.items()),
        ),
        "`platform` is versioned (`schema_version`), and a program that reads another version "
        "refuses it. `python -m jobs` reads it from Pulumi, or from a file that `--outputs` or "
        "`JOBS_OUTPUTS` names:\n",
    ]
    for group in groups(PlatformOutputs):
        rows = [(f"`{field.key}`", _type(field), field.effect) for field in group.fields]
        parts += [_heading(group), table(("key", "type", "content"), rows)]
    return "\n".join(parts)


def network() -> str:
    """Return the page of the security rules of the network."""
    parts = [
        "# Network rules\n",
        "Each subnet has a network security group, whose rules Azure applies in the order of "
        "their priorities; the last one denies all other traffic, also inside the network. "
        "Names such as AzureMonitor are service tags of Azure, REGION is the region of the "
        "stack, and ports are those of the destination. [What the platform "
        "declares](../platform.md) has the subnets' ranges and the other protections; "
        "[not tested on Azure](../tested.md).\n",
    ]
    for title, rules in _subnets().items():
        parts.append(f"## {title}\n")
        parts.append(
            table(
                ("priority", "direction", "rule", "protocol", "from", "to", "ports", "why"),
                (_rule(rule) for rule in rules),
            )
        )
    return "\n".join(parts)


def trainer() -> str:
    """Return the page of the trainer's options."""
    parts = [
        "# Options of the trainer\n",
        '`python` is `.venv-trainer/bin/python`. `make train ARGS="..."` passes options of '
        "`train`; on Azure they follow after `--`. A switch may stand alone: `--export` is "
        "`--export True`. `ml-trainer train --preset NAME --dry-run` prints the "
        "resolved configuration. Defaults are those without a [preset](presets.md).\n",
        "## train\n",
    ]
    for group in groups(TrainConfig):
        title = f"### {group.key}\n\n{group.about}\n" if group.key else "### General\n"
        parts += [title, _options(group.fields)]
    parts += _commands(TRAINER, left_out=("train",))
    return "\n".join(parts)


def jobs() -> str:
    """Return the page of the commands for jobs."""
    (common,) = groups(PlatformOptions)
    parts = [
        "# Commands for jobs\n",
        "`python` is `.venv/bin/python`. NAME is the key of a run, which stands for its newest "
        "job, or the name of a job. Options of the trainer follow after `--` where a command "
        "accepts them. [Train on Azure](../train-on-azure.md) describes kinds of job and "
        "resubmission.\n",
        "## Options of every command\n",
        _options(common.fields),
        *_commands(JOBS),
    ]
    return "\n".join(parts)


def presets() -> str:
    """Return the page of the presets."""
    rows = []
    for name, config in PRESETS.items():
        expected = EXPECTATIONS[name]
        data = config.data.dir or config.data.source
        rows.append(
            (
                f"`{name}`",
                _network(config),
                f"{config.model.image_size}",
                f"`{data}`",
                f"{config.batch_size}",
                f"{config.epochs:g}",
                f"{config.compute.precision}",
                expected.result,
                expected.source,
            )
        )
    heads = ("preset", "network", "pixels", "data", "batch of a rank", "epochs", "precision")
    return (
        "# Presets\n\n`--preset NAME` sets the defaults of all other options of `train`. "
        "`ml-trainer train --preset NAME --dry-run` prints every option.\n\n"
        + table((*heads, "expected", "source"), rows)
    )


def make() -> str:
    """Return the page of the targets of make."""
    return (
        "# Targets of make\n\n`make help` prints the targets for users:\n\n"
        + _targets("make")
        + "\n`make -C tools help` prints those for engineers of the repository:\n\n"
        + _targets("make -C tools")
    )


def _targets(command: str) -> str:
    shown = subprocess.run(
        [*command.split(), "-s", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    parts = []
    for block in shown.strip().split("\n\n"):
        title, *lines = block.splitlines()
        rows = (line.split(maxsplit=1) for line in lines)
        listed = ((f"`{command} {name}`", text) for name, text in rows)
        parts.append(f"## {title.rstrip(':')}\n\n{table(('target', 'effect'), listed)}")
    return "\n".join(parts)


def exit_statuses() -> str:
    """Return the page of the exit statuses of both programs."""
    rows = ((f"{status}", *meanings) for status, meanings in facts.STATUSES.items())
    return (
        "# Exit statuses\n\n"
        "A command of `python -m jobs` that follows a job to its end returns the exit status of "
        "the job's program if that failed, so a status of the trainer can come from both. `make` "
        "itself ends with 2 whenever a command in it fails; its last line names the status.\n\n"
        + table(("status", "ml-trainer", "python -m jobs"), rows)
    )


def files() -> str:
    """Return the page of the files of a run."""
    linked = {name: f"[schema](schemas/{name}.json)" for name in SCHEMAS}
    rows = [
        (f"`{name}`", when, linked.get(schema, ""), content)
        for name, (when, schema, content) in facts.FILES.items()
    ]
    parts = [
        "# Files of a run\n",
        "A run writes its folder `runs/NAME`; `runs/latest` points to the newest. JSON files are "
        "complete or absent. A test validates files of real runs with the schemas "
        "([JSON Schema](https://json-schema.org), 2020-12). Keys may be added; none is removed or "
        "changes its meaning.\n",
        table(("file", "written", "schema", "content"), rows),
        f"A data set has a `manifest.json`, which its folder gets last: {linked['manifest']}.\n",
    ]
    for name, schema in SCHEMAS.items():
        if name != "config":
            parts += [f"## {schema['title']}\n", *_schema(schema)]
    return "\n".join(parts)


def environment() -> str:
    """Return the page of the environment variables."""
    rows = ((f"`{name}`", *row) for name, row in facts.VARIABLES.items())
    return (
        "# Environment variables\n\n"
        "Options have precedence over variables. Azure's SDK also reads its own `AZURE_*`, Pulumi "
        "`PULUMI_*`, and the trainer what Open MPI and Azure Machine Learning set on a node. "
        "`HOROVOD_*` are set from options; a variable of NCCL that contradicts the "
        "configuration is an error.\n\n" + table(("variable", "read by", "effect"), rows)
    )


def index() -> str:
    """Return the first page of the reference."""
    rows = []
    for name, page in PAGES.items():
        if page is not index:
            rows.append((f"[{page().splitlines()[0].removeprefix('# ')}]({name})", name))
    return (
        "# Reference\n\n"
        "These pages are written from the code, and tests compare them. Tests also compare "
        "[options that do not go together](combinations.md) and [kinds of images](images.md).\n\n"
        + "".join(f"- {link}\n" for link, _ in rows)
        + "- [Jobs: kinds, resubmission, tags](../train-on-azure.md)\n"
        "- [Rules of a stack](rules.md), [roles and traffic](roles.md), [costs](costs.md)\n"
        "\nOther commands write the tables of [benchmarks](benchmarks.md), [faults of single "
        "requests](faults.md) and [others' verdicts](conformance.md).\n"
    )


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "settings.md": settings,
    "outputs.md": outputs,
    "network.md": network,
    "trainer.md": trainer,
    "presets.md": presets,
    "jobs.md": jobs,
    "make.md": make,
    "exit-statuses.md": exit_statuses,
    "files.md": files,
    "environment.md": environment,
    "index.md": index,
}
"""What writes each page."""

_SETTING_HEADS: Final = ("setting", "values", "default", "effect", "change")


def switched_on() -> Any:
    """Return settings of a stack in which every switch of a leaf is on."""
    least = read(SETTINGS, {"prefix": "hvd"}).value
    kinds = tuple(kind for leaf in LEAVES for kind in leaf.groups.values())
    changed: dict[str, Any] = {}
    for field in fields(least):
        group: Any = getattr(least, field.name)
        if isinstance(group, kinds):
            own = (
                inner.name for kind in kinds if isinstance(group, kind) for inner in fields(kind)
            )
            on = {name: True for name in own if isinstance(getattr(group, name), bool)}
            changed[field.name] = replace(cast("Any", group), **on)
    return replace(least, **changed)


def _subnets() -> dict[str, tuple[Rule, ...]]:
    around = Surroundings("the subnet", ("private endpoints",), ("DNS servers",))
    nodes = ("training", "build")
    rules_of = {
        "training": network_rules.training("REGION", around, ServiceTraffic()),
        "build": network_rules.build("REGION", around, ServiceTraffic()),
        "endpoints": network_rules.endpoints("the subnet", nodes, ("other networks",)),
    }
    chosen = switched_on()
    for leaf in LEAVES:
        for subnet in leaf.subnets(chosen):
            ranges = {other.role: other.role for other in leaf.subnets(chosen)}
            rules_of[subnet.role] = subnet.rules(around, ranges)
    return {f"Subnet `{role}`": rules for role, rules in rules_of.items()}


def _rule(rule: Rule) -> tuple[str, ...]:
    protocol = {"*": "any", "Tcp": "TCP", "Udp": "UDP"}[rule.protocol]
    places = (_places(rule.sources), _places(rule.destinations), _places(rule.ports))
    name = f"{rule.access.lower()}: `{rule.name}`"
    return f"{rule.priority}", rule.direction.lower(), name, protocol, *places, rule.why


def _places(names: Sequence[str]) -> str:
    return ", ".join("any" if name == network_rules.ANYWHERE else name for name in names)


def _commands(program: Program, left_out: Sequence[str] = ()) -> list[str]:
    parts = []
    for group in program.groups:
        listed = [command for command in program.commands if command.group == group]
        listed = [command for command in listed if command.options and command.name not in left_out]
        if not listed:
            continue
        parts.append(f"## {group[0].upper()}{group[1:]}\n")
        for command in listed:
            more = " [-- options of the trainer]" if getattr(command, "program", False) else ""
            options = [field for part in groups(command.load_options()) for field in part.fields]
            names = " ".join(field.flag for field in options if not field.flag.startswith("--"))
            line = f"python -m {program.name} {command.name} {names}".strip()
            summary = f"{command.summary[0].upper()}{command.summary[1:]}."
            parts.append(f"### {command.name}\n\n{summary}\n\n    {line} [options]{more}\n")
            if options:
                parts.append(_options(options))
    return parts


def _options(options: Iterable[Field]) -> str:
    rows = (
        (f"`{option.flag}`", _type(option), _default(option), option.effect) for option in options
    )
    return table(("option", "values", "default", "effect"), rows)


def _schema(schema: Mapping[str, Any]) -> list[str]:
    rows = _properties(schema.get("properties", {}), "")
    parts = [f"{schema['description']}\n", table(("key", "type", "content"), rows)]
    for event in schema.get("oneOf", ()):
        const = event["properties"]["event"]["const"]
        own = {key: property_ for key, property_ in event["properties"].items() if key != "event"}
        parts += [f"### Event `{const}`\n\n{event['description']}\n"]
        if own:
            parts.append(table(("key", "type", "content"), _properties(own, "")))
    return parts


def _properties(properties: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, str, str]]:
    for key, schema in properties.items():
        kind = schema.get("type", "any")
        words = " or ".join(kind) if isinstance(kind, list) else kind
        yield f"`{prefix}{key}`", words, schema.get("description", "")
        yield from _properties(schema.get("properties", {}), f"{prefix}{key}.")


def _heading(group: Group) -> str:
    return f"## `{group.key or 'platform'}`\n\n{group.about}\n"


def _type(field: Field) -> str:
    return f"{field.type}, {field.bounds}" if field.bounds else field.type


def _default(field: Field) -> str:
    if field.default in ("empty", "none"):
        return field.default
    return f"`{field.default}`" if field.default else "**required**"


def _change(field: Field) -> str:
    """Return whether a setting of a deployed stack can be changed, by facts or docstring."""
    for at, text in facts.CHANGES.items():
        if f"{field.key}.".startswith(f"{at}."):
            return text
    said = field.effect.lower()
    if "cannot be disabled later" in said:
        return "may be enabled, never disabled"
    replaced = said.partition("a change replaces ")[2].partition(".")[0]
    if replaced:
        return f"replaces {replaced}"
    return "no" if "cannot be changed later" in said else "yes"


def _network(config: Any) -> str:
    model = config.model
    return f"ResNet{model.depth}" if model.network == "resnet" else str(model.network)


def _cell(text: str) -> str:
    return text.replace("|", "\\|") or " "
