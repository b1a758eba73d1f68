"""Parse the options of a command into a frozen dataclass, and report all problems at once.

The fields of the dataclass are the options and positional arguments; their types and docstrings are
the help, which tyro lays out. tyro does not parse, as it ends at the first problem, and knows
neither former names nor options that may stand alone.
"""

import dataclasses
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from common import fields
from common.annotations import Positional, Required
from common.errors import ConfigError

T = TypeVar("T")


def parse(
    default: T,
    command: str,
    args: Sequence[str],
    description: str | None = None,
    *,
    program: str = "ml-trainer",
    others: Sequence[str] = (),
    elsewhere: Mapping[str, str] | None = None,
) -> T:
    """Parse the arguments of a command into a dataclass whose fields they are.

    Args:
        default: Instance with the values of options that are not given.
        command: Name of the command, for the help.
        args: Command line after the command. A switch may be followed by True or False; after `--`,
            all arguments are positional.
        description: Description in the help; None is the docstring of the dataclass.
        program: Words before the command, for the help.
        others: Options of the command that are not fields, for suggestions.
        elsewhere: Options that belong to another place of the command line, each with a clause that
            says to which.

    Raises:
        ConfigError: An option is unknown or a value is invalid; lists all of them.
    """
    named = args[: args.index("--")] if "--" in args else args
    if "--help" in named or "-h" in named:
        _help(default, f"{program} {command}", description)
    own, given, problems, left = _given(type(default), args, others, elsewhere or {})
    try:
        built = _replaced(default, given)
    except ConfigError as error:
        raise ConfigError([*problems, *error.problems]) from None
    problems += fields.problems(built)
    if left and not problems:
        problems = [_unexpected(left[0], own)]
    problems += [
        _missing(leaf)
        for leaf in own
        if leaf.required and not fields.get(built, leaf.key) and not _is_named(leaf, problems)
    ]
    if problems:
        raise ConfigError(problems)
    return built


def unreadable(cls: type, args: Sequence[str], others: Sequence[str] = ()) -> list[str]:
    """Return the problems of options whatever the others are: names that are unknown, and values
    that are missing, of another type or out of bounds.

    Args:
        cls: Dataclass whose fields the options are.
        args: Command line after the command.
        others: As for `parse`.
    """
    own, given, problems, left = _given(cls, args, others, {})
    for leaf in own:
        if leaf.key in given:
            problems += fields.problems_of(leaf, given[leaf.key])
    return problems or [_unexpected(argument, own) for argument in left[:1]]


def _unexpected(argument: str, leaves: Sequence[fields.Leaf]) -> str:
    named = next((leaf for leaf in leaves if leaf.key == "run" and leaf.positional is None), None)
    advice = f"; did you mean {named.flag} {argument}?" if named else ""
    return f"{argument}: unexpected argument{advice}"


def _is_named(leaf: fields.Leaf, problems: Sequence[str]) -> bool:
    """Whether a problem is that a positional argument was given as an option."""
    return any(problem.startswith(f"--{leaf.key}:") for problem in problems)


def _missing(leaf: fields.Leaf) -> str:
    advice = leaf.required.advice if leaf.required else ""
    return f"{leaf.flag}: is missing" + (f"; {advice}" if advice else "")


def _given(
    cls: type, args: Sequence[str], others: Sequence[str], elsewhere: Mapping[str, str]
) -> tuple[list[fields.Leaf], dict[str, object], list[str], list[str]]:
    """Read a command line; the arguments are those of `parse`.

    Returns:
        The leaves of the class; values by key, `Unparsed` if a text is invalid; the problems of all
        other kinds; and the positional arguments for which there is no field.
    """
    leaves = list(fields.leaves(cls))
    moved = {f"--{key.replace('_', '-')}": clause for key, clause in fields.gone(cls)}
    elsewhere = {**moved, **elsewhere}
    known = {leaf.flag: leaf for leaf in leaves if leaf.positional is None}
    former = {leaf.former_flag: leaf.flag for leaf in leaves if leaf.former_flag}
    former |= {
        f"--{leaf.key}": f"{leaf.flag}, without an option" for leaf in leaves if leaf.positional
    }
    given: dict[str, object] = {}
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
        # Configurations are printed with underscores, as their files have them.
        leaf = known.get(flag) or known.get(flag.replace("_", "-"))
        values = [value] if equals else _values(leaf, remaining)
        if leaf is None:
            place = elsewhere.get(flag) or elsewhere.get(flag.partition(".")[0])
            problem = fields.unknown_key(flag, sorted([*known, *others]), former)
            problems.append(f"{flag}: {place}" if place else problem)
        elif values or _is_many(leaf):
            given[leaf.key] = _read(leaf, values)
        elif leaf.alone is not None:
            given[leaf.key] = _read(leaf, [leaf.alone])
        else:
            problems.append(f"{flag}: needs a value")
    for leaf in leaves:
        if leaf.positional is not None and positional:
            taken = len(positional) if _is_many(leaf) else 1
            given[leaf.key] = _read(leaf, positional[:taken])
            del positional[:taken]
    return leaves, given, problems, positional


def _values(leaf: fields.Leaf | None, remaining: deque[str]) -> list[str]:
    """Remove the values of an option, which may be unknown, from what follows it."""
    many = _is_many(leaf)
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


def _read(leaf: fields.Leaf, texts: list[str]) -> object:
    if not _is_many(leaf):
        return _read_one(leaf.type, texts[0])
    values = tuple(_read_one(get_args(leaf.type)[0], text) for text in texts)
    return next((value for value in values if isinstance(value, fields.Unparsed)), values)


def _read_one(hint: Any, text: str) -> object:
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


def _is_many(leaf: fields.Leaf | None) -> bool:
    return leaf is not None and get_origin(leaf.type) is tuple


def _replaced(instance: T, given: Mapping[str, object]) -> T:
    """Return a dataclass with other values for dotted keys."""
    own: dict[str, Any] = {}
    inner: dict[str, dict[str, object]] = {}
    for key, value in given.items():
        name, _, rest = key.partition(".")
        if rest:
            inner.setdefault(name, {})[rest] = value
        else:
            own[name] = value
    own |= {name: _replaced(getattr(instance, name), each) for name, each in inner.items()}
    return dataclasses.replace(instance, **own)  # type: ignore[type-var]


def _help(default: object, program: str, description: str | None) -> NoReturn:
    """Print the options of a dataclass, and exit."""
    # tyro takes a tenth of a second, and only lays out the help.
    import tyro  # noqa: PLC0415
    from tyro import constructors  # noqa: PLC0415

    registry = constructors.ConstructorRegistry()

    @registry.struct_rule
    def dataclass(info: constructors.StructTypeInfo) -> constructors.StructConstructorSpec | None:
        if not dataclasses.is_dataclass(info.type):
            return None
        texts = _texts(info.type)
        hints = get_type_hints(info.type, include_extras=True)
        return constructors.StructConstructorSpec(
            info.type,
            tuple(
                constructors.StructFieldSpec(
                    name, marked(name, hint), getattr(info.default, name), helptext=texts.get(name)
                )
                for name, hint in hints.items()
            ),
        )

    @registry.primitive_rule
    def value(
        info: constructors.PrimitiveTypeInfo,
    ) -> constructors.PrimitiveConstructorSpec[Any] | None:
        many = get_origin(info.type) is tuple
        if get_origin(info.type) is None and info.type not in (int, float, bool, str):
            return None
        return constructors.PrimitiveConstructorSpec(
            nargs="*" if many else 1,
            metavar=_metavar(info.type),
            instance_from_str=tuple,
            is_instance=lambda _: True,
            str_from_instance=lambda value: [str(v) for v in value] if many else [str(value)],
        )

    def marked(name: str, hint: Any) -> Any:
        if name.endswith("_"):
            # A keyword of Python.
            return Annotated[hint, tyro.conf.arg(name=name.rstrip("_"))]
        notes = get_args(hint)[1:]
        names = [note.name for note in notes if isinstance(note, Positional)]
        required = any(isinstance(note, Required) for note in notes)
        if not names:
            shown = tyro.conf.arg(help_behavior_hint="(required)")
            return Annotated[hint, shown] if required else hint
        shown = tyro.conf.arg(metavar=names[0], help_behavior_hint="")
        return Annotated[hint, tyro.conf.Positional, shown]

    words = description or " ".join((type(default).__doc__ or "").split())
    with registry:
        tyro.cli(
            type(default),
            prog=program,
            description=words,
            args=["--help"],
            default=default,
            config=(tyro.conf.FlagConversionOff,),
        )
    raise SystemExit(0)


def _texts(cls: type) -> Mapping[str, str]:
    """Return the docstrings of all fields, each as one paragraph: tyro would keep line breaks."""
    import docstring_parser  # noqa: PLC0415 as tyro

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
