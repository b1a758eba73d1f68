"""The fields of dataclasses, as their docstrings, types and bounds describe them. Pure."""

import ast
import dataclasses
import inspect
import textwrap
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal, Union

from common import fields
from common.annotations import Bounds, Positional


@dataclass(frozen=True)
class Field:
    """A field of a dataclass, or of a dataclass in it."""

    key: str
    """Dotted path."""
    type: str
    """Its values, in words."""
    default: str
    """Its default as a user would write it; empty if it must be given."""
    bounds: str
    """Bounds of a number; empty without any."""
    effect: str
    """Its docstring, in one line."""
    flag: str
    """Option on a command line."""


@dataclass(frozen=True)
class Group:
    """The fields of one dataclass."""

    key: str
    """Dotted path of the group; empty for the outermost."""
    about: str
    """Docstring of the dataclass, or of the field that holds it."""
    fields: tuple[Field, ...]


def groups(cls: type, prefix: str = "", about: str = "", base: object = None) -> Iterator[Group]:
    """Iterate over a dataclass and all dataclasses in it.

    Args:
        cls: The dataclass.
        prefix: Dotted path of the group.
        about: Description of the group; the docstring of the class by default.
        base: Instance with the defaults of its fields; without one, they are those of the class.
    """
    hints = typing.get_type_hints(cls, include_extras=True)
    texts = docstrings(cls)
    own, inner = [], []
    for field in dataclasses.fields(cls):
        hint, key = hints[field.name], f"{prefix}.{field.name}".strip(".")
        default = getattr(base, field.name) if base is not None else _default(field)
        nested, name = _nested(hint)
        if nested is None or name:
            own.append(_field(key, hint, default, texts.get(field.name, "")))
        if nested is not None:
            path = f"{key}.{name}".strip(".")
            given = default if isinstance(default, nested) else None
            inner.append((nested, path, texts.get(field.name, ""), given))
    yield Group(prefix, about or _about(cls), tuple(own))
    for nested, path, text, given in inner:
        yield from groups(nested, path, text, given)


def docstrings(cls: type) -> Mapping[str, str]:
    """Return the docstrings of the fields of a dataclass, each in one line."""
    texts: dict[str, str] = {}
    for class_ in reversed(cls.__mro__):
        try:
            source = inspect.getsource(class_)
        except (OSError, TypeError):
            # Built in, or composed of others.
            continue
        tree = ast.parse(textwrap.dedent(source)).body[0]
        assert isinstance(tree, ast.ClassDef)
        texts |= described(tree.body)
    return texts


def described(body: list[ast.stmt]) -> dict[str, str]:
    """Return the texts that follow the assignments of a class or module, by name."""
    texts = {}
    for statement, after in pairwise(body):
        target: ast.expr | None = statement.target if isinstance(statement, ast.AnnAssign) else None
        if isinstance(statement, ast.Assign):
            target = statement.targets[0]
        match after:
            case ast.Expr(ast.Constant(str(text))) if isinstance(target, ast.Name):
                texts[target.id] = _line(text)
    return texts


def written(value: object) -> str:
    """Return a default as a user would write it."""
    if isinstance(value, Mapping):
        value = tuple(value)
    if isinstance(value, tuple):
        return " ".join(map(written, value)) or "empty"
    if isinstance(value, float):
        return f"{value:g}"
    words = {"None": "none", "True": "true", "False": "false", "": "empty"}
    return words.get(str(value), str(value))


def _field(key: str, hint: Any, default: object, effect: str) -> Field:
    # The package common names the fields of a group of options.
    notes = typing.get_args(hint)[1:] if typing.get_origin(hint) is Annotated else ()
    bounds = [str(note) for note in notes if isinstance(note, Bounds)]
    for part in typing.get_args(_bare(hint)):
        more = typing.get_args(part)[1:] if typing.get_origin(part) is Annotated else ()
        bounds += [str(note) for note in more if isinstance(note, Bounds)]
    position = next((note.name for note in notes if isinstance(note, Positional)), None)
    return Field(
        key,
        _words(hint),
        "" if default is dataclasses.MISSING else written(default),
        "; ".join(bounds),
        effect,
        position or "--" + key.rstrip("_").replace("_", "-"),
    )


def _words(hint: Any) -> str:
    bare = _bare(hint)
    if typing.get_origin(bare) is Literal:
        return ", ".join(f"`{word}`" for word in typing.get_args(bare))
    if typing.get_origin(bare) in (Union, types.UnionType):
        parts = [part for part in typing.get_args(bare) if part is not type(None)]
        return " or ".join(map(_words, parts))
    words = fields.describe(hint).removeprefix("a ").removeprefix("an ")
    # Ids of resources have a long form, of which only the type differs.
    words = words.replace("/subscriptions/.../resourceGroups/.../providers/", "of ")
    return words.replace("list, each an ", "list of ").replace("list, each a ", "list of ")


def _nested(hint: Any) -> tuple[type | None, str]:
    """Return the dataclass of a field that holds one or several, and the name of one among several.

    A field that may be empty is listed as well, so it also has a name: an empty one, as a mark.
    """
    bare = _bare(hint)
    if dataclasses.is_dataclass(bare):
        return typing.cast("type", bare), ""
    parts = [part for part in map(_bare, typing.get_args(bare)) if dataclasses.is_dataclass(part)]
    if not parts:
        return None, ""
    name = "NAME" if typing.get_origin(bare) in (dict, Mapping) else ""
    return typing.cast("type", parts[0]), name


def _default(field: "dataclasses.Field[Any]") -> object:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def _bare(hint: Any) -> Any:
    return typing.get_args(hint)[0] if typing.get_origin(hint) is Annotated else hint


def _about(cls: type) -> str:
    """Return the docstring of a dataclass; of one that is composed of others, that of its trunk."""
    written_by_hand = (
        class_ for class_ in reversed(cls.__mro__) if "__annotations__" in vars(class_)
    )
    texts = (_line(class_.__doc__) for class_ in (cls, *written_by_hand))
    return next((text for text in texts if not text.partition("(")[0].isidentifier()), "")


def _line(text: str | None) -> str:
    return " ".join((text or "").split())
