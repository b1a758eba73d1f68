"""Parse a command line into a frozen dataclass, and report all problems at once.

tyro reads the options, their types and their help texts from the dataclass.
"""

import dataclasses
from collections.abc import Collection, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

import docstring_parser
import tyro

from common import fields
from common.errors import ConfigError

T = TypeVar("T")


def split_positional(
    args: Sequence[str], switches: Collection[str] = ()
) -> tuple[list[str], list[str]]:
    """Split a command line into positional arguments, and options with their values.

    All options take a value, except `switches`, whose value is optional. After `--` everything is
    positional.
    """
    positional: list[str] = []
    options: list[str] = []
    remaining = list(args)
    while remaining:
        arg = remaining.pop(0)
        if arg == "--":
            positional += remaining
            break
        if not arg.startswith("-"):
            positional.append(arg)
            continue
        options.append(arg)
        has_value = arg.startswith("--") and arg != "--help" and "=" not in arg
        if arg in switches:
            has_value = bool(remaining) and remaining[0] in ("True", "False")
        if has_value and remaining and not remaining[0].startswith("--"):
            options.append(remaining.pop(0))
    return positional, options


def without_options(args: Sequence[str], *flags: str) -> list[str]:
    """Remove some options and their values from a command line."""
    kept: list[str] = []
    remaining = list(args)
    while remaining:
        arg = remaining.pop(0)
        if arg.split("=")[0] not in flags:
            kept.append(arg)
        elif "=" not in arg and remaining:
            remaining.pop(0)
    return kept


def parse(
    default: T,
    command: str,
    args: Sequence[str],
    description: str | None = None,
    *,
    package: str = "trainer",
) -> T:
    """Parse options into a dataclass whose fields they are.

    Args:
        default: Instance with the values of options that are not given.
        command: Name of the command, for the help.
        args: Command line after the command.
        description: Description in the help; None is the docstring of the dataclass.
        package: Package of the command, for the help.

    Raises:
        ConfigError: An option is unknown or a value is invalid; lists all of them.
    """
    cls = type(default)
    known = {leaf.flag for leaf in fields.leaves(cls)} | {"--help", "-h"}
    former = {leaf.former_flag: leaf.flag for leaf in fields.leaves(cls) if leaf.former_flag}
    strange = [
        fields.unknown_key(flag, sorted(known), former)
        for flag in (arg.split("=")[0] for arg in args)
        if flag.startswith("--") and flag not in known
    ]
    if "--help" in args or "-h" in args:
        _reflow(cls)
    else:
        switches = {leaf.flag for leaf in fields.leaves(cls) if leaf.type is bool}
        args = _with_values(args, switches)
        single = {leaf.flag for leaf in fields.leaves(cls) if get_origin(leaf.type) is not tuple}
        bare = [a for a, after in pairwise([*args, "--"]) if a in single and after[:2] == "--"]
        strange += [f"{flag}: needs a value" for flag in bare]
        args = [arg for arg in args if arg not in bare]
    try:
        with _registry():
            built, left = tyro.cli(
                cls,
                prog=f"python -m {package} {command}",
                description=description,
                args=list(args),
                default=default,
                return_unknown_args=True,
                config=(tyro.conf.FlagConversionOff,),
            )
    except ConfigError as error:
        raise ConfigError([*strange, *error.problems]) from None
    strange += fields.problems(built)
    if left and not strange:
        strange = [f"{left[0]}: unexpected argument"]
    if strange:
        raise ConfigError(strange)
    return built


def _with_values(args: Sequence[str], switches: Collection[str]) -> list[str]:
    """Insert True after switches without a value."""
    found: list[str] = []
    for arg, after in pairwise([*args, "--"]):
        found.append(arg)
        if arg in switches and after.startswith("--"):
            found.append("True")
    return found


def _reflow(cls: type) -> None:
    """Pass each field's docstring to tyro as one paragraph, as tyro would keep the line breaks."""
    texts = {
        p.arg_name: p.description or ""
        for parent in reversed(cls.__mro__)
        if dataclasses.is_dataclass(parent)
        for p in docstring_parser.parse_from_object(parent).params
    }
    hints = get_type_hints(cls)
    for field in dataclasses.fields(cls):
        if dataclasses.is_dataclass(hints[field.name]):
            _reflow(cast("type", hints[field.name]))
        elif field.name in texts:
            field.metadata = MappingProxyType({"help": " ".join(texts[field.name].split())})


def _registry() -> tyro.constructors.ConstructorRegistry:
    """Create parsers of values that never fail: an invalid value becomes `Unparsed`, so that the
    configuration reports it together with all other problems.
    """
    registry = tyro.constructors.ConstructorRegistry()

    @registry.primitive_rule
    def forgiving(
        info: tyro.constructors.PrimitiveTypeInfo,
    ) -> tyro.constructors.PrimitiveConstructorSpec[Any] | None:
        hint: Any = info.type
        if get_origin(hint) is None and hint not in (int, float, bool, str):
            return None
        many = get_origin(hint) is tuple
        return tyro.constructors.PrimitiveConstructorSpec(
            nargs="*" if many else 1,
            metavar=_metavar(hint),
            instance_from_str=lambda texts: (
                _read_many(hint, texts) if many else _read(hint, texts[0])
            ),
            is_instance=lambda value: (
                fields.accepts(hint, value) or isinstance(value, fields.Unparsed)
            ),
            str_from_instance=lambda value: [str(v) for v in value] if many else [str(value)],
        )

    return registry


def _metavar(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return "|".join(map(str, get_args(hint)))
    if get_origin(hint) is tuple:
        return f"{_metavar(get_args(hint)[0])} ..."
    if get_args(hint):
        return "|".join(map(_metavar, get_args(hint)))
    return {int: "INT", float: "NUMBER", bool: "True|False", str: "TEXT", type(None): "None"}[hint]


def _read_many(hint: Any, texts: list[str]) -> object:
    values = tuple(_read(get_args(hint)[0], text) for text in texts)
    broken = [value for value in values if isinstance(value, fields.Unparsed)]
    return broken[0] if broken else values


def _read(hint: Any, text: str) -> object:
    """Parse a text as a value of a type; return `Unparsed` if it is invalid."""
    candidates: list[object] = [text]
    if text == "None":
        candidates.insert(0, None)
    if text in ("True", "False"):
        candidates.insert(0, text == "True")
    for number in (float, int):
        try:
            candidates.insert(0, number(text))
        except ValueError:
            continue
    return next((c for c in candidates if fields.accepts(hint, c)), fields.Unparsed(text))
