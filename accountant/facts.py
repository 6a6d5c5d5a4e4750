"""The base of everything that is written down: frozen, nothing unknown, JSON both ways."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo
from pydantic_core import ErrorDetails

from accountant.errors import InvalidValue


class Fact(BaseModel):
    """A frozen model that refuses fields it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


@contextmanager
def in_one_line() -> Iterator[None]:
    """Turn the report of a model that was built in here into one InvalidValue."""
    try:
        yield
    except ValidationError as error:
        raise InvalidValue(" ".join(map(_line, error.errors()))) from None


def _line(detail: ErrorDetails) -> str:
    if detail["type"] == "value_error":
        return str(detail["ctx"]["error"])
    name = ".".join(map(str, detail["loc"])) or "value"
    return f"{name} must be valid; got {detail['input']!r}. {detail['msg']}."


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
    return check_words(value, name)


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
