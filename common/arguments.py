"""Parse the options of a command into a frozen dataclass, and report all problems at once.

tyro reads options, positional arguments, types and help texts from the dataclass. Two things it
does not do: list all problems of all kinds, and let a switch, or an option that has a value of its
own for it, stand alone.
"""

import dataclasses
from collections import deque
from collections.abc import Mapping, Sequence
from functools import cache, partial
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import docstring_parser
import tyro

from common import annotations, fields
from common.errors import ConfigError

T = TypeVar("T")


def parse(
    default: T,
    command: str,
    args: Sequence[str],
    description: str | None = None,
    *,
    package: str = "trainer",
) -> T:
    """Parse the arguments of a command into a dataclass whose fields they are.

    Args:
        default: Instance with the values of options that are not given.
        command: Name of the command, for the help.
        args: Command line after the command. A switch may be followed by True or False; after `--`,
            all arguments are positional.
        description: Description in the help; None is the docstring of the dataclass.
        package: Package of the command, for the help.

    Raises:
        ConfigError: An option is unknown or a value is invalid; lists all of them.
    """
    cls = type(default)
    named = args[: args.index("--")] if "--" in args else args
    asks_help = "--help" in named or "-h" in named
    args, problems = (["--help"], []) if asks_help else _normalized(args, list(fields.leaves(cls)))
    try:
        with _registry():
            built, left = tyro.cli(
                cls,
                prog=f"python -m {package} {command}",
                description=description or " ".join((cls.__doc__ or "").split()),
                args=args,
                default=default,
                return_unknown_args=True,
                config=(tyro.conf.FlagConversionOff,),
            )
    except ConfigError as error:
        raise ConfigError([*problems, *error.problems]) from None
    problems += fields.problems(built)
    if left and not problems:
        problems = [f"{left[0]}: unexpected argument"]
    if problems:
        raise ConfigError(problems)
    return built


def _normalized(args: Sequence[str], leaves: list[fields.Leaf]) -> tuple[list[str], list[str]]:
    """Rewrite a command line for tyro: only known options, each with a value, and positional
    arguments last.

    Returns:
        The arguments, and the problems of those that were left out.
    """
    known = {leaf.flag: leaf for leaf in leaves if leaf.positional is None}
    former = {leaf.former_flag: leaf.flag for leaf in leaves if leaf.former_flag}
    former |= {
        f"--{leaf.key}": f"{leaf.flag}, without an option" for leaf in leaves if leaf.positional
    }
    options: list[str] = []
    positional: list[str] = []
    problems: list[str] = []
    remaining = deque(args)
    while remaining:
        arg = remaining.popleft()
        if arg == "--":
            positional += remaining
            break
        if not arg.startswith("-"):
            positional.append(arg)
            continue
        if not arg.startswith("--"):
            problems.append(f"{arg}: unexpected argument")
            continue
        flag, equals, value = arg.partition("=")
        leaf = known.get(flag)
        values = [value] if equals else _values(leaf, remaining)
        if leaf is None:
            problems.append(fields.unknown_key(flag, sorted([*known, "--help"]), former))
        elif values or get_origin(leaf.type) is tuple:
            options += [arg] if equals else [flag, *values]
        elif leaf.alone is not None:
            options += [flag, leaf.alone]
        else:
            problems.append(f"{flag}: needs a value")
    return [*options, "--", *positional], problems


def _values(leaf: fields.Leaf | None, remaining: deque[str]) -> list[str]:
    """Remove the values of an option, which may be unknown, from what follows it."""
    many = leaf is not None and get_origin(leaf.type) is tuple
    choices = ["True", "False"]
    if leaf is not None and leaf.type is not bool:
        choices = [str(choice) for choice in get_args(leaf.type)]
    may_stand_alone = leaf is not None and leaf.alone is not None
    values: list[str] = []
    while remaining and not remaining[0].startswith("--") and (many or not values):
        if may_stand_alone and remaining[0] not in choices:
            break
        values.append(remaining.popleft())
    return values


def _registry() -> tyro.constructors.ConstructorRegistry:
    """Create the rules by which tyro reads our dataclasses and their values."""
    registry = tyro.constructors.ConstructorRegistry()

    @registry.struct_rule
    def dataclass(
        info: tyro.constructors.StructTypeInfo,
    ) -> tyro.constructors.StructConstructorSpec | None:
        if not dataclasses.is_dataclass(info.type):
            return None
        return tyro.constructors.StructConstructorSpec(
            info.type,
            tuple(
                tyro.constructors.StructFieldSpec(
                    name,
                    _with_markers(name, hint),
                    getattr(info.default, name),
                    # A function, as only a help needs the texts.
                    helptext=partial(_help_text, info.type, name),
                )
                for name, hint in get_type_hints(info.type, include_extras=True).items()
            ),
        )

    @registry.primitive_rule
    def value(
        info: tyro.constructors.PrimitiveTypeInfo,
    ) -> tyro.constructors.PrimitiveConstructorSpec[Any] | None:
        """Parse a value without failing: an invalid value becomes `Unparsed`, so that it is
        reported together with all other problems.
        """
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


def _with_markers(name: str, hint: Any) -> Any:
    if name.endswith("_"):
        # A keyword of Python.
        return Annotated[hint, tyro.conf.arg(name=name.rstrip("_"))]
    names = [note.name for note in get_args(hint)[1:] if isinstance(note, annotations.Positional)]
    if not names:
        return hint
    shown = tyro.conf.arg(metavar=names[0], help_behavior_hint="")
    return Annotated[hint, tyro.conf.Positional, shown]


def _help_text(cls: type, name: str) -> str | None:
    return _texts(cls).get(name)


@cache
def _texts(cls: type) -> Mapping[str, str]:
    """Return the docstrings of all fields, each as one paragraph: tyro would keep line breaks."""
    return {
        param.arg_name: " ".join((param.description or "").split())
        for parent in reversed(cls.__mro__)
        if dataclasses.is_dataclass(parent)
        for param in docstring_parser.parse_from_object(parent).params
    }


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
