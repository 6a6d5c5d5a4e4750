"""The base of everything that is written down: frozen, nothing unknown, JSON both ways."""

from __future__ import annotations

import ast
import inspect
import os
import textwrap
import unicodedata
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    ValidationError,
    ValidationInfo,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, ErrorDetails

from accountant.errors import InvalidValue

LONGEST_SHOWN = 60
LONGEST_NAME = 200  # characters; three such names fit in an index of either database
LONGEST_WORDS = 10_000
LOOKING_ALIKE = {"LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC"}


class Fact(BaseModel):
    """A frozen model that refuses fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    if not TYPE_CHECKING:  # which knows the fields of each model from the one it replaces

        def __init__(self, /, *unnamed: object, **fields: object) -> None:
            """Whoever writes a call gets one line; `model_validate` reports as pydantic does."""
            if unnamed:
                kind, first = type(self).__name__, next(iter(type(self).model_fields), "NAME")
                raise InvalidValue(
                    f"{kind} must be given its values by name; got one without, of type "
                    f"{type(unnamed[0]).__name__}. Write {kind}({first}=...)."
                )
            try:
                self.__pydantic_validator__.validate_python(fields, self_instance=self)
            except ValidationError as error:
                raise in_words(error) from None

        __init__.__pydantic_base_init__ = True  # what is nested is built without this detour

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """The schema, where the text under a field describes it: sources are read for this alone.

        Pydantic would read them whenever the models are imported.
        """
        schema = handler(core)
        fields = handler.resolve_ref_schema(schema).get("properties", {})
        for name, text in _described(cls):
            if name in fields:  # and not left out of what is written
                fields[name]["description"] = text
        return schema


AnyFact = TypeVar("AnyFact", bound=Fact)


def _described(model: type[Fact]) -> Iterator[tuple[str, str]]:
    """The fields with a text under them, and that text."""
    for part in reversed(model.__mro__):
        if issubclass(part, Fact):
            (written,) = ast.parse(textwrap.dedent(inspect.getsource(part))).body
            assert isinstance(written, ast.ClassDef)
            for statements in pairwise(written.body):
                match statements:
                    case (
                        ast.AnnAssign(target=ast.Name(id=name)),
                        ast.Expr(value=ast.Constant(value=str(text))),
                    ):
                        yield name, inspect.cleandoc(text)


def in_words(error: ValidationError) -> InvalidValue:
    """The first problem: as it was raised, where it stands alone; otherwise in one line."""
    problem = _first(error)
    raised = problem.get("ctx", {}).get("error")
    if isinstance(raised, InvalidValue) and len(problem["loc"]) <= 1:
        return raised
    return InvalidValue(first_problem(error))


def read_file(
    model: type[AnyFact],
    path: str | os.PathLike[str],
    must: str,
    error: type[Exception],
    encoding: str = "utf-8",
) -> AnyFact:
    """The model in a file of JSON. What is wrong is one line, raised as this error.

    `must`: the beginning of what is said when the file cannot be read.
    """
    try:
        return model.model_validate_json(Path(path).read_text(encoding=encoding))
    except (OSError, UnicodeDecodeError):
        raise error(f"{must}; got {path}. Check the path.") from None
    except ValidationError as problem:
        raise error(f"{Path(path).name}: {first_problem(problem)}") from None


def _first(error: ValidationError) -> ErrorDetails:
    """A misspelt key before all others: it may be why they are there."""
    problems = error.errors(include_url=False)
    misspelt = [problem for problem in problems if problem["type"] == "extra_forbidden"]
    return (misspelt or problems)[0]


def first_problem(error: ValidationError) -> str:
    """The first problem of a model in one line, with where it is."""
    problem = _first(error)
    kind, text = problem["type"], problem["msg"]
    path = [str(part) for part in problem["loc"]]
    where = ".".join(part for part in path if part.isidentifier() or part.isdigit()) or "the value"
    if kind == "value_error":
        told = text.removeprefix("Value error, ")
        return f"{where}: {told}" if len(path) > 1 else told
    if kind == "json_invalid":
        return f"the file must be JSON; got {text.removeprefix('Invalid JSON: ')}. Check it there."
    if kind == "extra_forbidden":
        return f"{where} must not be there; got an unknown key. Check its spelling."
    if kind == "missing":
        return f"{where} must be given; got nothing. Add it."
    if kind == "union_tag_invalid":
        known, got = problem["ctx"]["expected_tags"], problem["ctx"]["tag"]
        return f"{where} must be of kind {known}; got {got!r}. Choose one."
    if kind == "union_tag_not_found":
        return f"{where} must say its kind; got none. Add it."
    must, got = _must(kind, problem.get("ctx", {})), quoted(problem["input"])
    if not must and text.startswith("Input should "):
        must = text.removeprefix("Input should ")
    if must:
        return f"{where} must {must}; got {got}. Change that value."
    return f"{where} must be valid; got another thing: {text}. Change it."


def _must(kind: str, limits: Mapping[str, Any]) -> str:
    """What pydantic says of this kind, as people do; nothing if they would say the same."""
    if kind == "multiple_of" and limits["multiple_of"] == 2:
        return "be even"
    plain = {
        name: f"{limit:g}" if type(limit) is float else limit for name, limit in limits.items()
    }
    return _WORDS.get(kind, "").format_map(plain)


_WORDS = {
    **dict.fromkeys(("bool_type", "bool_parsing"), "be true or false"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "be a number"),
    "string_type": "be text",
    "tuple_type": "be a list",
    "dict_type": "be an object",
    "model_type": "be a {class_name}, or an object with its fields",
    "model_attributes_type": "be an object with its kind and its fields",
    "greater_than": "be above {gt}",
    "greater_than_equal": "be at least {ge}",
    "less_than": "be below {lt}",
    "less_than_equal": "be at most {le}",
    "too_short": "hold at least {min_length}",
    "too_long": "hold at most {max_length}",
}


def quoted(value: object) -> str:
    """The value as Python writes it, cut where it gets long."""
    got = repr(value)
    return got if len(got) <= LONGEST_SHOWN else f"{got[:LONGEST_SHOWN]}..."


def check_words(value: str, name: str, longest: int = LONGEST_WORDS) -> str:
    """The value, if it prints on one line and is not too long; InvalidValue otherwise."""
    if not isinstance(value, str):
        raise InvalidValue(f"{name} must be text; got {quoted(value)}. Write it in quotes.")
    if len(value) > longest:
        raise InvalidValue(
            f"{name} must have at most {longest} characters; got {len(value)}. Shorten it."
        )
    if not value.isprintable():
        raise InvalidValue(
            f"{name} must be printable text on one line; got {quoted(value)}. "
            "Remove line breaks and control characters."
        )
    return value


def check_name(value: str, name: str) -> str:
    """The value, if it is a short line of text that is not blank; InvalidValue otherwise."""
    check_reason(value, name, LONGEST_NAME)
    if value != unicodedata.normalize("NFC", value).strip():
        raise InvalidValue(
            f"{name} must be written in one way, without blanks around it and with composed "
            f"characters; got {quoted(value)}. Retype it."
        )
    return value


def check_reason(value: str, name: str, longest: int = LONGEST_WORDS) -> str:
    """The value, if it is one line of text that is not blank; InvalidValue otherwise."""
    check_words(value, name, longest)
    if not value.strip():
        raise InvalidValue(f"{name} must not be blank; got {value!r}. Say it in words.")
    return value


def check_title(value: str, name: str) -> str:
    """The value, if it is a name in one script; people tell data sets apart by such names."""
    check_name(value, name)
    scripts = {unicodedata.name(c, "?").split()[0] for c in value if c.isalpha()}
    if len(scripts & LOOKING_ALIKE) > 1:
        raise InvalidValue(
            f"{name} must be written in one script, because letters of others look alike; got "
            f"{value!a}. Retype it."
        )
    return value


def look_alike(first: str, second: str) -> bool:
    """Whether two names differ at most in case, or in the width or form of their letters."""

    def plain(name: str) -> str:
        return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())

    return plain(first) == plain(second)


def one_line(text: str) -> str:
    """The text in one way and on one line, with blanks for what does not print."""
    composed = unicodedata.normalize("NFC", text)
    return " ".join("".join(c if c.isprintable() else " " for c in composed).split())


def _words(value: str, info: ValidationInfo) -> str:
    return check_words(value, info.field_name or "text")


def _name(value: str, info: ValidationInfo) -> str:
    return check_name(value, info.field_name or "name")


def _reason(value: str, info: ValidationInfo) -> str:
    return check_reason(value, info.field_name or "reason")


Words = Annotated[str, AfterValidator(_words)]
"""One line of printable text, possibly empty."""

Reason = Annotated[str, AfterValidator(_reason)]
"""One line of printable text, not blank."""

Name = Annotated[str, AfterValidator(_name)]
"""A short line of printable text, not blank, written in one way."""

Count = Annotated[int, Field(strict=True, ge=1, le=10**15)]
"""A whole number of at least one, and no more than anything can be counted."""
