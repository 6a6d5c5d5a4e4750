"""The form of a record, as far as it is filled here, and how it is written.

What these models accept, the schema of the registry accepts.
"""

from __future__ import annotations

import re
from datetime import date
from typing import Annotated, Literal

import yaml
from pydantic import AfterValidator, Field, ValidationInfo

from accountant.errors import InvalidValue
from accountant.facts import Fact
from accountant.registry.choices import ProductType, Sector


def _filled(value: str, info: ValidationInfo) -> str:
    if not value.strip():
        raise InvalidValue(
            f"{info.field_name} must not be blank; got {value!r}. Say that it is not stated."
        )
    return value


def _day(value: str, info: ValidationInfo) -> str:
    try:
        known = date.fromisoformat(value).isoformat() == value
    except ValueError:
        known = False
    if not known:
        raise InvalidValue(
            f"{info.field_name} must be a day such as 2026-01-31; got {value!r}. Change it."
        )
    return value


def _joined(value: str, info: ValidationInfo) -> str:
    if not re.fullmatch(r"[^\W_]+(-[^\W_]+)*", value):
        raise InvalidValue(
            f"{info.field_name} must be words of letters and digits, joined by hyphens; got "
            f"{value!r}. Change it."
        )
    return value


Text = Annotated[str, AfterValidator(_filled)]
Texts = Annotated[tuple[Text, ...], Field(min_length=1)]
Day = Annotated[str, AfterValidator(_day)]
Number = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]
Slug = Annotated[str, AfterValidator(_joined)]
Status = Literal[
    "Converted",
    "Draft",
    "Pending",
    "Changes Required",
    "Approved",
    "Approved (Update Requested)",
    "Approved (Pending)",
]
Tier = Literal[1, 2, 3]


class Basic(Fact):
    """The data product, and who answers for it."""

    name: Text
    data_curators: Texts
    description: Text
    intended_use: Text
    data_product_type: ProductType
    data_product_region: Text
    publication_date: Day
    data_product_sector: Sector | None = None


class Variant(Fact):
    """The kind of differential privacy, and what it does not cover."""

    variant_name: Literal["Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"]
    data_domain: Text
    unprotected_quantities: Text


class Parameters(Fact):
    """Rounded up, so that they never understate."""

    epsilon: Number
    delta: Annotated[Number, Field(le=1)]


class PrivacyLoss(Fact):
    """Who is protected, and how much."""

    privacy_unit: Text
    privacy_unit_details: Text
    privacy_parameters: Parameters
    privacy_parameters_details: Text


class Model(Fact):
    """Who is trusted, and how releases come about."""

    model_name: Literal["Local", "Central", "Shuffle", "Federated", "Varies"]
    model_name_details: Text
    actors: Text
    release_type: Literal["One release", "Many releases"] | None = None
    release_type_details: Text
    data_source_type: Literal["Static", "Dynamic"]
    data_source_type_details: Text
    access_type: Literal["Interactive", "Non-interactive"]
    access_type_details: Text


class Accounting(Fact):
    """How losses add, and what costs nothing."""

    post_processing: Text
    composition: Text


class Implementation(Fact):
    """How the releases were made, and why so."""

    preprocessing_and_hyperparameter_tuning: Text
    mechanisms: Text
    justification: Text


class Administrative(Fact):
    """Who wrote the record, and from what."""

    notes: Text
    registry_authors: Texts


class Deployment(Fact):
    """Everything but the standing of the record."""

    basic: Basic
    dp_variant: Variant
    privacy_loss: PrivacyLoss
    deployment_model: Model
    accounting: Accounting
    implementation: Implementation
    administrative: Administrative


class Record(Fact):
    """The whole record."""

    url_slug: Slug
    status: Status
    tier: Tier
    deployment: Deployment


def to_yaml(record: Record) -> str:
    """The record as YAML that reads back as it was. What is no record is not written."""
    checked = Record(**record.model_dump(warnings=False))
    document = checked.model_dump(mode="json", exclude_none=True)
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as such."""

    def represent_text(self, text: str) -> yaml.ScalarNode:
        style = "|" if "\n" in text else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _Dumper.represent_text)
