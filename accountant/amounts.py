"""Exact amounts: read from text, kept as fractions, rounded only in a stated direction."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache, wraps
from typing import Annotated

from pydantic import PlainSerializer, PlainValidator, ValidationInfo, WithJsonSchema

from accountant.errors import InvalidAmount

_MAX_DIGITS = 1000  # of a numerator and of a denominator
_BOUND = 10**_MAX_DIGITS
_TEN = Fraction(10)
_SHORT = 20  # a decimal expansion with more digits is written p/q
_SHOWN = 6  # significant digits of an amount rounded for people

_DECIMAL = re.compile(r"\+?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE]([+-]?[0-9]+))?")
_RATIO = re.compile(r"\+?[0-9]+/[0-9]+")
_EXAMPLES = 'Write it as text such as "0.1", "1e-6" or "1/3"'


def parse_amount(value: object, name: str = "amount") -> Fraction:
    """The exact nonnegative value of an integer, a fraction, a decimal or text.

    Raises InvalidAmount for anything else, floats included: the float 0.1 is not one tenth.
    """
    if type(value) is str:
        return _read(value, name)
    if type(value) is Fraction and 0 <= value.numerator < _BOUND > value.denominator:
        return value  # the usual case, and twenty times as fast
    if isinstance(value, float):
        raise InvalidAmount(_float_advice(value, name))
    if isinstance(value, bool) or not isinstance(value, int | Fraction | Decimal | str):
        raise InvalidAmount(
            f"{name} must be text or an integer; got {_quoted(value)}. {_EXAMPLES}."
        )
    if isinstance(value, Decimal | str):
        return _read(str(value), name)
    return _within_bounds(Fraction(value), value, name)


def _remembered(show: Callable[[Fraction], str]) -> Callable[[Fraction], str]:
    """The same, faster for amounts that come again. A fraction itself is slow to hash."""

    @lru_cache(maxsize=10_000)
    def shown(numerator: int, denominator: int) -> str:
        return show(Fraction(numerator, denominator))

    @wraps(show)
    def remembered(amount: Fraction) -> str:
        return shown(amount.numerator, amount.denominator)

    return remembered


@_remembered
def to_text(amount: Fraction) -> str:
    """The canonical exact text: a decimal where that is finite and short, else p/q."""
    places = _decimal_places(amount.denominator)
    if places is not None:
        coefficient = amount.numerator * 10**places // amount.denominator
        if coefficient < 10**_SHORT or coefficient % 10 ** (len(str(coefficient)) - _SHORT) == 0:
            return _layout(coefficient, -places, scientific=False)
    return f"{amount.numerator}/{amount.denominator}"


@_remembered
def show_up(amount: Fraction) -> str:
    """Six significant digits, never below the amount."""
    return _layout(*_rounded(amount, up=True), scientific=False)


@_remembered
def show_down(amount: Fraction) -> str:
    """Six significant digits, never above the amount."""
    return _layout(*_rounded(amount, up=False), scientific=False)


@_remembered
def show_delta_up(delta: Fraction) -> str:
    """As `show_up`, always in scientific form."""
    return _layout(*_rounded(delta, up=True), scientific=True)


@_remembered
def show_delta_down(delta: Fraction) -> str:
    """As `show_down`, always in scientific form."""
    return _layout(*_rounded(delta, up=False), scientific=True)


def float_below(amount: Fraction) -> float:
    """The largest float that is at most the amount."""
    try:
        nearest = amount.numerator / amount.denominator
    except OverflowError:
        return sys.float_info.max
    return math.nextafter(nearest, -math.inf) if Fraction(nearest) > amount else nearest


def float_above(amount: Fraction) -> float:
    """The smallest float that is at least the amount."""
    try:
        nearest = amount.numerator / amount.denominator
    except OverflowError:
        return math.inf
    return math.nextafter(nearest, math.inf) if Fraction(nearest) < amount else nearest


def root_above(amount: Fraction) -> Fraction:
    """The square root, exact where it is rational and rounded up in bit 256 where not."""
    exact = Fraction(math.isqrt(amount.numerator), math.isqrt(amount.denominator))
    if exact * exact == amount:
        return exact
    scaled = (amount.numerator << 512) // amount.denominator
    return Fraction(math.isqrt(scaled) + 1, 1 << 256)


def root_below(amount: Fraction) -> Fraction:
    """The square root, exact where it is rational and rounded down in bit 256 where not."""
    above = root_above(amount)
    return above if above * above == amount else above - Fraction(1, 1 << 256)


def in_short(amount: Fraction, *, up: bool) -> Fraction:
    """An amount with at most 20 significant digits and 300 decimal places, rounded as told.

    Of two amounts the larger stays so, or becomes equal: all of one size have the same unit.
    """
    if amount == 0:
        return amount
    size = _digits(amount.numerator) - _digits(amount.denominator)
    while amount >= _TEN**size:  # until it is the number of digits before the point
        size += 1
    unit = _TEN ** max(size - 20, -300)
    parts = amount / unit
    return Fraction(math.ceil(parts) if up else math.floor(parts)) * unit


def _digits(number: int) -> int:
    """The decimal digits of a number, or one less: texts of very long ones are refused."""
    return number.bit_length() * 30102 // 100000


def _validate(value: object, info: ValidationInfo) -> Fraction:
    return parse_amount(value, info.field_name or "amount")


Amount = Annotated[
    Fraction,
    PlainValidator(_validate),
    PlainSerializer(to_text, return_type=str),
    WithJsonSchema(
        {
            "type": ["string", "integer"],
            "description": "An exact nonnegative amount, never a floating-point number.",
            "examples": ["0.1", "1e-6", "1/3", 1],
        }
    ),
]
"""A pydantic field that holds an exact nonnegative fraction."""


@lru_cache(maxsize=10_000)  # ledgers repeat themselves
def _read(text: str, name: str) -> Fraction:
    text = text.strip()
    if len(text) > 2 * _MAX_DIGITS + 2:
        raise InvalidAmount(_too_long(name, text))
    if match := _DECIMAL.fullmatch(text):
        exponent = match[1] or "0"
        if len(exponent) > 5 or abs(int(exponent)) > _MAX_DIGITS:
            raise InvalidAmount(_too_long(name, text))
        return _within_bounds(Fraction(text), text, name)
    if _RATIO.fullmatch(text) and text.rpartition("/")[2].strip("0"):
        return _within_bounds(Fraction(text), text, name)
    if text.startswith("-") and (_DECIMAL.fullmatch(text[1:]) or _RATIO.fullmatch(text[1:])):
        raise InvalidAmount(_not_negative(name, text))
    raise InvalidAmount(f"{name} must be a finite number; got {_quoted(text)}. {_EXAMPLES}.")


def _within_bounds(fraction: Fraction, value: object, name: str) -> Fraction:
    if fraction < 0:
        raise InvalidAmount(_not_negative(name, value))
    if fraction.numerator >= _BOUND or fraction.denominator >= _BOUND:
        raise InvalidAmount(_too_long(name, value))
    return fraction


@lru_cache(maxsize=10_000)
def _decimal_places(denominator: int) -> int | None:
    """The fewest decimal places that make `1/denominator` a whole number, if any do."""
    twos = (denominator & -denominator).bit_length() - 1
    rest, fives = denominator >> twos, 0
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    return max(twos, fives) if rest == 1 else None


def _rounded(amount: Fraction, up: bool) -> tuple[int, int]:
    """An integer and a power of ten: the amount rounded to `_SHOWN` significant digits."""
    if amount == 0:
        return 0, 0
    above, below = amount.numerator, amount.denominator
    exponent = len(str(above)) - len(str(below)) - _SHOWN
    if exponent < 0:
        above *= 10**-exponent
    else:
        below *= 10**exponent
    if above >= below * 10**_SHOWN:
        below, exponent = below * 10, exponent + 1
    whole, rest = divmod(above, below)
    return whole + (up and rest > 0), exponent


def _layout(coefficient: int, exponent: int, scientific: bool) -> str:
    """The text of `coefficient * 10**exponent` without trailing zeros."""
    if coefficient == 0:
        return "0"
    digits = str(coefficient)
    point = len(digits) + exponent  # the value is 0.digits * 10**point
    digits = digits.rstrip("0")
    if scientific or not -4 < point <= 16:
        mantissa = digits[0] + ("." + digits[1:] if digits[1:] else "")
        return f"{mantissa}e{point - 1}"
    if point <= 0:
        return "0." + "0" * -point + digits
    whole, rest = digits[:point].ljust(point, "0"), digits[point:]
    return f"{whole}.{rest}" if rest else whole


def _quoted(value: object) -> str:
    try:
        text = repr(value)
    except ValueError:  # an integer beyond the interpreter's limit for printing
        text = "a very long number"
    return text if len(text) <= 40 else text[:37] + "..."


def _float_advice(value: float, name: str) -> str:
    if not math.isfinite(value):
        return f"{name} must be a finite number; got the float {value}. {_EXAMPLES}."
    literal = repr(float(value))
    return f'{name} must be text or an integer; got the float {literal}. Write it as "{literal}".'


def _not_negative(name: str, value: object) -> str:
    return f"{name} must not be negative; got {_quoted(value)}. Use zero or more."


def _too_long(name: str, value: object) -> str:
    return (
        f"{name} must have at most {_MAX_DIGITS} digits; got {_quoted(value)}. "
        "Use a simpler number."
    )
