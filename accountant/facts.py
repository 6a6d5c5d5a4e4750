"""The base of everything that is written down: frozen, nothing unknown, JSON both ways."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo

from accountant.errors import InvalidValue

LONGEST_SHOWN = 60


class Fact(BaseModel):
    """A frozen model that refuses fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


@contextmanager
def in_one_line() -> Iterator[None]:
    """Turn the report of a model that was built in here into one InvalidValue."""
    try:
        yield
    except ValidationError as error:
        raise InvalidValue(first_problem(error)) from None


def first_problem(error: ValidationError) -> str:
    """The first problem of a model in one line, with where it is."""
    problems = error.errors(include_url=False)
    misspelt = [problem for problem in problems if problem["type"] == "extra_forbidden"]
    problem = (misspelt or problems)[0]
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
    if text.startswith("Input should "):
        got = repr(problem["input"])
        shown = got if len(got) <= LONGEST_SHOWN else f"{got[:LONGEST_SHOWN]}..."
        return f"{where} must {text.removeprefix('Input should ')}; got {shown}. Change that value."
    return f"{where} must be valid; got another thing: {text}. Change it."


def check_words(value: str, name: str) -> str:
    """The value, if it prints on one line; InvalidValue otherwise."""
    if not value.isprintable():
        raise InvalidValue(
            f"{name} must be printable text on one line; got {value!r}. "
            "Remove line breaks and control characters."
        )
    return value


def check_name(value: str, name: str) -> str:
    """The value, if it is one line of text that is not blank; InvalidValue otherwise."""
    if not value.strip():
        raise InvalidValue(f"{name} must not be blank; got {value!r}. Give it a name.")
    if value != unicodedata.normalize("NFC", value).strip():
        raise InvalidValue(
            f"{name} must be written in one way, without blanks around it and with composed "
            f"characters; got {value!r}. Retype it."
        )
    return check_words(value, name)


def one_line(text: str) -> str:
    """The text in one way and on one line, with blanks for what does not print."""
    composed = unicodedata.normalize("NFC", text)
    return " ".join("".join(c if c.isprintable() else " " for c in composed).split())


def _words(value: str, info: ValidationInfo) -> str:
    return check_words(value, info.field_name or "text")


def _name(value: str, info: ValidationInfo) -> str:
    return check_name(value, info.field_name or "name")


Words = Annotated[str, AfterValidator(_words)]
"""One line of printable text, possibly empty."""

Name = Annotated[str, AfterValidator(_name)]
"""One line of printable text, not blank."""

Count = Annotated[int, Field(strict=True, ge=1)]
"""A whole number of at least one."""
