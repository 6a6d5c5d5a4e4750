import math
from collections.abc import Callable
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from pydantic import ValidationError

from accountant import (
    Accountant,
    ApproximateLoss,
    Authorization,
    Budget,
    BudgetExceeded,
    Charge,
    GaussianLoss,
    InvalidValue,
    PrivacyUnit,
    Stage,
    Statement,
)
from accountant.amounts import show_delta_down
from accountant.facts import one_line
from accountant.registry.choices import ProductType, Sector
from accountant.registry.form import Record, to_yaml
from accountant.registry.markdown import escaped
from accountant.registry.record import NOT_STATED, record_of

from .conftest import grant, make_charge, manage, part_of, release_one

SCHEMA = Path(__file__).parents[4] / "shared" / "registry-schema.yaml"
UNFILLED = {"deployment.privacy_loss.privacy_parameters.rho", "deployment.administrative.sources"}
GIVEN: dict[str, Any] = {
    "name": "Spread of the survey",
    "curators": ["Institute", "Ministry"],
    "description": "Variances along three directions.",
    "intended_use": "Teaching",
    "region": "Europe",
    "product_type": ProductType.SYNTHETIC,
    "sector": Sector.HEALTHCARE,
    "authors": ["Ana", "Ben"],
}
HOSTILE = [
    "no",
    "null",
    "~",
    "1e-6",
    "0x1F",
    "2026-01-01",
    "12:30:00",
    ": ",
    "a: b",
    "#",
    "a # b",
    "---",
    "...",
    "- a",
    "1. a",
    "? a",
    "!!python/object:os.system",
    "&a *a",
    "%YAML 1.1",
    "{a: b}",
    "[a]",
    "|",
    "> a",
    "'",
    '"',
    "`a` ``b`` ```",
    "*a* __b__ a_b_c ~~d~~",
    "$a$ $$b$$ \\(c\\) \\[d\\] \\begin{e}f\\end{e} \\ref{g}",
    "<script>alert(1)</script> &lt; &#36; &amp",
    "![a](b) [c]: d [^1]",
    "https://example.org/a_b www.example.org ana@example.org",
    "line\nbreak\r\nand\ttab\x00\x85\u2028\u202e\ufeff\ud800",
    "größe 調査 🙂 é é",
    "x" * 9_000,
    "word " * 1_800,
]

Release = Callable[[Accountant, Charge], Authorization]
MakeCharge = Callable[..., Charge]


def schema() -> dict[str, Any]:
    if not SCHEMA.exists():
        pytest.skip(f"the schema of the registry is not there: {SCHEMA.name}")
    document: dict[str, Any] = yaml.safe_load(SCHEMA.read_text(encoding="utf-8"))
    return document


def problems(document: object) -> list[str]:
    """What the schema of the registry finds wrong; nothing where it is not at hand."""
    if not SCHEMA.exists():
        return []
    checks = jsonschema.Draft7Validator(
        schema(), format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER
    )
    return [error.message for error in checks.iter_errors(document)]


def written(record: Record) -> dict[str, Any]:
    """The record as it is read from its YAML, which must be the record."""
    document: dict[str, Any] = yaml.safe_load(to_yaml(record))
    assert record.model_dump(mode="json", exclude_none=True) == document
    assert list(leaves(record.model_dump(mode="json", exclude_none=True))) == list(leaves(document))
    assert record == Record.model_validate(document)
    assert problems(document) == []
    return document


def leaves(document: object, path: str = "") -> dict[str, Any]:
    if not isinstance(document, dict):
        return {path: document}
    return {
        where: value
        for key, part in document.items()
        for where, value in leaves(part, f"{path}.{key}".lstrip(".")).items()
    }


def changed(record: Record, path: str, value: object) -> dict[str, Any]:
    """The record's document with one value changed."""
    document = record.model_dump(mode="json", exclude_none=True)
    *parents, last = path.split(".")
    part = document
    for key in parents:
        part = part[key]
    part[last] = value
    return document


def test_a_record_of_a_new_grant(keeper: Accountant) -> None:
    document = written(record_of(keeper.statement()))
    basic = document["deployment"]["basic"]
    today = keeper.entries()[0].time[:10]
    assert ("Draft", 1) == (document["status"], document["tier"])
    assert f"survey-{today[:4]}" == document["url_slug"]
    assert basic == {
        "name": "survey",
        "data_curators": [NOT_STATED],
        "description": "Differentially private releases from the data set survey: 0 releases so "
        "far. What they hold is not stated in the ledger.",
        "intended_use": "health study",
        "data_product_type": "Summary statistics",
        "data_product_region": NOT_STATED,
        "publication_date": today,
    }
    model = document["deployment"]["deployment_model"]
    assert "release_type" not in model
    assert "Stored: 0 releases." in model["release_type_details"]
    assert "neither is on record yet" in document["deployment"]["dp_variant"]["data_domain"]
    assert "Stages: none on record" in document["deployment"]["implementation"]["mechanisms"]


def test_what_the_ledger_says_is_told(history: Accountant) -> None:
    document = written(record_of(history.statement()))
    told = leaves(document["deployment"])
    assert ("Approximate DP", "Central", "Static", "Many releases") == (
        told["dp_variant.variant_name"],
        told["deployment_model.model_name"],
        told["deployment_model.data_source_type"],
        told["deployment_model.release_type"],
    )
    for path, words in {
        "dp_variant.data_domain": "10 rows",
        "dp_variant.unprotected_quantities": history.statement().public,
        "privacy_loss.privacy_unit_details": "A person has at most 5 rows, so",
        "privacy_loss.privacy_parameters_details": "Spent so far: epsilon 1 and delta 7e-6.",
        "deployment_model.model_name_details": history.statement().trust,
        "deployment_model.release_type_details": "Stored: 2 releases, 20",
        "implementation.mechanisms": "mean (epsilon 0.25 and delta 1e-6): 3 x pure 0.01, Gaussian "
        "mu 0.333334; 2 times",
        "administrative.notes": history.statement().last_hash,
    }.items():
        assert words in told[path]
    history_told = told["deployment_model.release_type_details"]
    for words in (
        "1 charge begun, and no release is stored; the answers may have been seen.",
        "1 request refused",
        "Still to be spent: epsilon 0 and delta 3e-6.",
    ):
        assert words in history_told
    assert "ana" not in to_yaml(record_of(history.statement())).split()


def test_what_is_given_is_told(history: Accountant) -> None:
    document = written(record_of(history.statement(), **GIVEN))
    year = history.entries()[0].time[:4]
    assert f"spread-of-the-survey-institute-{year}" == document["url_slug"]
    assert document["deployment"]["basic"] == {
        "name": "Spread of the survey",
        "data_curators": ["Institute", "Ministry"],
        "description": "Variances along three directions.",
        "intended_use": "Teaching",
        "data_product_type": "Synthetic data",
        "data_product_region": "Europe",
        "publication_date": history.statement().charges[0].stored_at[:10],
        "data_product_sector": "Healthcare",
    }
    assert ["Ana", "Ben"] == document["deployment"]["administrative"]["registry_authors"]


@pytest.mark.parametrize(
    ("left_out", "tier"),
    [
        ((), 3),
        (("justification",), 2),
        (("preprocessing",), 2),
        (("region",), 1),
        (("curators",), 1),
        (("description", "justification"), 1),
        (("name", "intended_use", "sector", "authors"), 3),  # the ledger has two, two need not be
    ],
)
def test_the_tier_is_the_highest_that_is_filled(
    history: Accountant, left_out: tuple[str, ...], tier: int
) -> None:
    given = GIVEN | {"preprocessing": "None.", "justification": "Simple."}
    record = record_of(history.statement(), **{k: given[k] for k in given if k not in left_out})
    assert tier == written(record)["tier"]


def test_without_a_release_the_tier_is_the_lowest(keeper: Accountant) -> None:
    assert record_of(keeper.statement(), **GIVEN).tier == 1


@pytest.mark.parametrize("blank", ["", "  ", "\n"])
def test_blank_options_are_as_if_left_out(history: Accountant, blank: str) -> None:
    statement = history.statement()
    texts = ("name", "description", "intended_use", "region", "preprocessing", "justification")
    record = record_of(statement, curators=[blank], authors=[blank], **dict.fromkeys(texts, blank))
    assert record == record_of(statement)


def test_a_purpose_that_is_missing_is_not_stated(path: Path) -> None:
    unit = PrivacyUnit(rows_per_person=1)
    keeper = Accountant.grant(path, data_set="survey", budget=Budget.of(1, "1e-6"), unit=unit)
    record = record_of(keeper.statement(), **{**GIVEN, "intended_use": ""})
    assert (NOT_STATED, 1) == (record.deployment.basic.intended_use, record.tier)


def test_one_release_that_takes_all_is_not_interactive(
    keeper: Accountant, release: Release, charge: MakeCharge
) -> None:
    release(keeper, charge(epsilon="0.5"))
    model = record_of(keeper.statement()).deployment.deployment_model
    assert ("One release", "Interactive") == (model.release_type, model.access_type)
    other = Accountant.grant(
        keeper.ledger, data_set="other", budget=Budget.of("0.1", "1e-6"), unit=keeper.unit
    )
    release(other, charge())
    model = record_of(other.statement()).deployment.deployment_model
    assert ("One release", "Non-interactive") == (model.release_type, model.access_type)


def test_a_second_request_that_left_no_release_is_interactive(
    keeper: Accountant, release: Release, charge: MakeCharge
) -> None:
    release(keeper, charge("first", epsilon="0.5"))
    second = keeper.authorize(charge("second", epsilon="0.5"), rows=10, columns=["age"])
    assert isinstance(second, Authorization)
    keeper.start(second)
    model = record_of(keeper.statement()).deployment.deployment_model
    assert ("One release", "Interactive") == (model.release_type, model.access_type)


def test_allocations_are_told_without_their_names(
    keeper: Accountant, release: Release, charge: MakeCharge
) -> None:
    release(keeper.allocate("Berta", Budget.of("0.3", "3e-6")), charge())
    keeper.allocate("Carl", Budget.of("1/3", "3e-6"))
    record = record_of(keeper.statement())
    written(record)
    details = record.deployment.deployment_model.access_type_details
    for words in (
        "Free pool: epsilon 0.366667 and delta 4e-6.",
        "Allocation 1 of the grant: epsilon 0.3 and delta 3e-6, of which epsilon 0.1 and delta "
        "1e-6 spent.",
        "Allocation 2 of the grant: epsilon 0.333334 and delta 3e-6, of which epsilon 0 and delta "
        "0 spent.",
    ):
        assert words in details
    assert not {"Berta", "Carl"} & set(to_yaml(record).replace(".", " ").split())


def test_a_record_of_squares_says_how_they_are_counted(path: Path) -> None:
    keeper = grant(path, "gaussian")
    manage(keeper)
    document = written(record_of(keeper.statement()))
    told = leaves(document["deployment"])
    assert told["privacy_loss.privacy_parameters.epsilon"] == 2
    assert told["privacy_loss.privacy_parameters.delta"] == 2e-5
    for where, words in {
        "privacy_loss.privacy_parameters_details": "Counted as mu 0.519743 and delta 1e-6 aside. "
        "Mu says how hard two candidates are to tell apart",
        "accounting.composition": "Gaussian differential privacy with a fixed filter: the squares",
        "deployment_model.release_type_details": "Still to be spent: mu 0.439469 and delta",
        "deployment_model.access_type_details": "Allocation 1 of the grant: mu 0.20494 and delta "
        "4e-7 aside, of which mu 0.20494 and delta 1e-7 aside spent.",
        "implementation.mechanisms": "350 x Gaussian mu 0.01",
    }.items():
        assert words in told[where]
    leak = f"Leak kept for rounding: {show_delta_down(keeper.balance().total.granted.leak)}, of "
    assert f"{leak}which 0 spent." in told["privacy_loss.privacy_parameters_details"]
    assert "a leak that was kept for it; each adds on its own" in told["accounting.composition"]
    assert "the epsilons of all charges add" not in to_yaml(record_of(keeper.statement()))


def test_a_grant_whose_mu_is_left_can_be_asked_whatever_is_aside(path: Path) -> None:
    keeper = grant(path, "gaussian")
    keeper.allocate("ana", part_of(keeper, "0.1", "1e-5"))
    told = ApproximateLoss(epsilon=Fraction(0), delta=keeper.remaining().delta)
    release_one(keeper, make_charge("all that is aside", losses=(told,)))
    assert keeper.remaining().delta == 0
    model = record_of(keeper.statement()).deployment.deployment_model
    assert ("One release", "Interactive") == (model.release_type, model.access_type)


def test_voided_charges_are_counted_and_nothing_else(
    keeper: Accountant, release: Release, charge: MakeCharge
) -> None:
    for key in ("first", "second"):
        keeper.authorize(charge(key), rows=10, columns=["age"])
        keeper.void(key, "the process died")
    only_voided = record_of(keeper.statement()).deployment
    assert only_voided.deployment_model.release_type is None
    assert "2 charges given back" in only_voided.deployment_model.release_type_details
    assert "none on record" in only_voided.implementation.mechanisms
    assert "Spent so far: epsilon 0 and" in only_voided.privacy_loss.privacy_parameters_details
    release(keeper, charge("third"))
    record = record_of(keeper.statement())
    written(record)
    assert record.deployment.deployment_model.release_type == "One release"
    assert "times" not in record.deployment.implementation.mechanisms


def test_a_charge_that_waits_is_told(keeper: Accountant, charge: MakeCharge) -> None:
    keeper.authorize(charge(epsilon="1/3"), rows=10, columns=["age"])
    deployment = record_of(keeper.statement()).deployment
    details = deployment.deployment_model.release_type_details
    assert "1 charge paid for, and not begun." in details
    assert "Still to be spent: epsilon 0.666666 and delta 9e-6." in details  # rounded down
    spent = deployment.privacy_loss.privacy_parameters_details
    assert "Spent so far: epsilon 0.333334 and delta 1e-6." in spent  # rounded up


def test_a_raise_counts_and_is_told(keeper: Accountant) -> None:
    raised = Budget.of("2", "1e-5")
    Accountant.grant(
        keeper.ledger, data_set="survey", budget=raised, unit=keeper.unit, reason="a *second* wave"
    )
    loss = record_of(keeper.statement()).deployment.privacy_loss
    assert loss.privacy_parameters.epsilon == 2
    assert "to epsilon 2 and delta 1e-5: a \\*second\\* wave" in loss.privacy_parameters_details


def test_the_days_are_those_of_the_first_and_the_last_release(history: Accountant) -> None:
    statement = history.statement()

    def told(*days: str) -> tuple[str, str]:
        lines = tuple(
            line.model_copy(update={"stored_at": f"{day}T23:59:59.000000+00:00" if day else ""})
            for line, day in zip(statement.charges, days, strict=True)
        )
        deployment = record_of(statement.model_copy(update={"charges": lines})).deployment
        details = deployment.deployment_model.release_type_details.splitlines()
        return deployment.basic.publication_date, details[0]

    for days, first, line in (
        (("2024-02-29", "", "2026-12-31"), "2024-02-29", "2 releases, 2024-02-29 to 2026-12-31"),
        (("2025-01-02", "", "2025-01-01"), "2025-01-01", "2 releases, 2025-01-01 to 2025-01-02"),
        (("", "2025-01-01", ""), "2025-01-01", "1 release, 2025-01-01"),
        (("", "", ""), statement.grants[0].time[:10], "0 releases"),
    ):
        assert (first, f"- Stored: {line}.") == told(*days)


def test_many_releases_make_a_record_too(history: Accountant) -> None:
    statement = history.statement()
    budget = Budget.of("1/100000", "1e-10")
    loss = GaussianLoss(mu=Fraction(1, 3), leak=Fraction(1, 10**20))
    stages = tuple(Stage(name="q", budget=budget, losses=losses) for losses in ((), (loss,)))
    line = statement.charges[0].model_copy(update={"stages": stages})
    document = written(record_of(statement.model_copy(update={"charges": (line,) * 5000})))
    mechanisms = document["deployment"]["implementation"]["mechanisms"]
    share = "q (epsilon 1e-5 and delta 1e-10)"
    assert f"  - {share}: losses not stated; 5000 times\n" in mechanisms
    assert f"  - {share}: Gaussian mu 0.333334, leak 1e-20; 5000 times\n" in mechanisms


amounts = st.builds(
    lambda digits, exponent, down: Fraction(digits, down) / 10**exponent,
    st.integers(1, 10**20),
    st.integers(0, 400),
    st.integers(1, 10**6),
)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Statement:
    """The statement of a grant alone."""
    return Accountant.grant(
        tmp_path_factory.mktemp("bare") / "ledger.db",
        data_set="survey",
        budget=Budget.of(1, "1e-6"),
        unit=PrivacyUnit(rows_per_person=1),
    ).statement()


@given(epsilon=amounts, delta=amounts)
def test_numbers_are_never_below_the_amounts(
    bare: Statement, epsilon: Fraction, delta: Fraction
) -> None:
    granted = Budget(epsilon=epsilon, delta=delta / (1 + delta))
    document = yaml.safe_load(to_yaml(record_of(bare.model_copy(update={"budget": granted}))))
    shown = document["deployment"]["privacy_loss"]["privacy_parameters"]
    for name in ("epsilon", "delta"):
        number, exact = shown[name], getattr(granted, name)
        assert Fraction(number) >= exact
        assert Fraction(math.nextafter(number, -1.0)) < exact


def test_an_epsilon_beyond_all_floats_is_refused(bare: Statement) -> None:
    huge = bare.model_copy(update={"budget": Budget.of("1e309", "1e-6")})
    with pytest.raises(InvalidValue, match="epsilon must be a finite number; got inf"):
        record_of(huge)


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:20]))
def test_hostile_options_stay_text(history: Accountant, text: str) -> None:
    record = record_of(
        history.statement(),
        name=text,
        curators=[text, text],
        description=text,
        intended_use=text,
        region=text,
        preprocessing=text,
        justification=text,
        authors=[text],
    )
    basic = written(record)["deployment"]["basic"]
    assert escaped(text) == basic["description"] == basic["name"]
    require_plain(text, basic["description"])
    assert all(line == line.rstrip() for line in to_yaml(record).splitlines())


@pytest.mark.parametrize("text", [text for text in HOSTILE if text.isprintable()][:-2])
def test_hostile_ledgers_stay_text(path: Path, text: str) -> None:
    budget = Budget.of(1, "1e-6")
    unit = PrivacyUnit(rows_per_person=1)
    keeper = Accountant.grant(
        path, data_set=f"d{text.strip()}", budget=budget, unit=unit, purpose=text
    )
    stage = Stage(name=f"s{text.strip()}", budget=budget, losses=())
    charge = Charge(release_key="k", plan_hash="f", unit=unit, budget=budget, stages=(stage,))
    granted = keeper.authorize(charge, rows=3, columns=[f"c{text.strip()}"])
    assert isinstance(granted, Authorization)
    keeper.start(granted)
    keeper.store(granted, {})
    deployment = written(record_of(keeper.statement()))["deployment"]
    require_plain(f"d{text}", deployment["basic"]["name"])
    require_plain(text, deployment["basic"]["intended_use"])
    for words, markdown in (
        (f"from the data set d{one_line(text)}: 1 release", deployment["basic"]["description"]),
        (f"record: c{one_line(text)}.", deployment["dp_variant"]["data_domain"]),
    ):
        assert words in "".join(shown_by_markdown(markdown).texts)
        assert {"p", "code"} >= shown_by_markdown(markdown).tags
    shown = shown_by_markdown(deployment["implementation"]["mechanisms"])
    assert {"ul", "li", "code"} >= shown.tags
    assert f"s{one_line(text)} (epsilon 1" in "".join(shown.texts)


@given(st.text() | st.text(alphabet="*_`$\\<>&#;[]()!~-+=:/.@|{}1aw \n", max_size=30))
def test_escaped_text_is_never_markup(text: str) -> None:
    require_plain(text, escaped(text))


@example("&lt")
@given(st.text(alphabet="*_`$\\<>&#;[]a1 .", max_size=8))
def test_escaped_text_is_no_markup_within_a_sentence(text: str) -> None:
    line = one_line(text)
    shown = shown_by_markdown(f"Made of {escaped(text)}; and of {escaped(text)}: no more.")
    assert f"Made of {line}; and of {line}: no more." == "".join(shown.texts)
    assert {"p", "code"} >= shown.tags


class Page(HTMLParser):
    """What a page shows: texts, those that LaTeX is looked for in, and tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.latex: list[str] = []
        self.tags: set[str] = set()
        self.coded = False
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        self.coded = tag == "code"

    def handle_endtag(self, tag: str) -> None:
        self.coded = False

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if not self.coded:
            self.latex.append(data)


def shown_by_markdown(text: str) -> Page:
    return Page(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(text).strip())


def require_plain(text: str, markdown: str) -> None:
    """The Markdown shows exactly this text, without markup, HTML or LaTeX."""
    shown = shown_by_markdown(markdown)
    assert one_line(text) == "".join(shown.texts)
    assert {"p", "code"} >= shown.tags
    assert not {"$", "\\"} & set("".join(shown.latex))
    assert "<" not in markdown  # names are also put on a page without Markdown


@pytest.mark.parametrize(
    ("plain", "markdown"),
    [
        ("health study, 2024 (wave 2)", "health study, 2024 (wave 2)"),
        ("R&D of AT&T: 100 % of x_1 = y-2!", "R&D of AT&T: 100 % of x_1 = y-2!"),
        ("*a* _b_", "\\*a\\* \\_b\\_"),
        ("costs $5", "costs `$`5"),
        ("\\(x\\)", "`\\`(x`\\`)"),
        ("<b>&lt;", "&lt;b&gt;&amp;lt;"),
        ("12. a", "12\\. a"),
        ("[a](b)", "\\[a\\](b)"),
        ("http://a.b", "http\\://a.b"),
        ("www.a.b WWW.a.b a@b.c", "www\\.a.b WWW\\.a.b a\\@b.c"),
        ("a\nb", "a b"),
    ],
)
def test_only_what_must_be_is_escaped(plain: str, markdown: str) -> None:
    assert escaped(plain) == markdown


@pytest.mark.parametrize(
    ("name", "slug"),
    [
        ("Größe & Co_2", "größe-co-2"),
        ("調査", "調査"),
        ("---", ""),
        ("½ ² ①", "½-²-①"),
        ("a" * 99 + " b", "a" * 99),
    ],
)
def test_the_slug_is_words_and_the_year(keeper: Accountant, name: str, slug: str) -> None:
    year = keeper.entries()[0].time[:4]
    record = record_of(keeper.statement(), name=name)
    assert f"{slug}-{year}".lstrip("-") == record.url_slug
    written(record)


def test_long_text_is_written_line_by_line(history: Accountant) -> None:
    text = to_yaml(record_of(history.statement()))
    assert "    actors: |-\n      - Holder of the table" in text
    assert "publication_date: '20" in text
    assert "name: größe 調査\n" in to_yaml(record_of(history.statement(), name="größe 調査"))


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("status", "draft"),
        ("tier", 0),
        ("tier", 4),
        ("tier", "1"),
        ("url_slug", ""),
        ("url_slug", "a b"),
        ("url_slug", "a/../b"),
        ("new", "a"),
        ("deployment.new", "a"),
        ("deployment.basic.name", ""),
        ("deployment.basic.name", " \n"),
        ("deployment.basic.name", 1),
        ("deployment.basic.data_curators", []),
        ("deployment.basic.data_curators", [" "]),
        ("deployment.basic.data_curators", "Institute"),
        ("deployment.basic.data_product_type", "Statistics"),
        ("deployment.basic.data_product_sector", "Health"),
        ("deployment.basic.publication_date", "2026"),
        ("deployment.basic.publication_date", "20260101"),
        ("deployment.basic.publication_date", "2026-W01-1"),
        ("deployment.basic.publication_date", "2026-02-30"),
        ("deployment.basic.publication_date", "2026-01-01T00:00:00"),
        ("deployment.dp_variant.variant_name", "pure"),
        ("deployment.privacy_loss.privacy_parameters.epsilon", "1"),
        ("deployment.privacy_loss.privacy_parameters.epsilon", True),
        ("deployment.privacy_loss.privacy_parameters.epsilon", -0.1),
        ("deployment.privacy_loss.privacy_parameters.epsilon", math.inf),
        ("deployment.privacy_loss.privacy_parameters.delta", math.nan),
        ("deployment.privacy_loss.privacy_parameters.delta", 1.1),
        ("deployment.deployment_model.model_name", "central"),
        ("deployment.deployment_model.release_type", "Two releases"),
        ("deployment.deployment_model.data_source_type", "Fixed"),
        ("deployment.deployment_model.access_type", "None"),
        ("deployment.accounting.composition", None),
        ("deployment.implementation.mechanisms", ["a"]),
        ("deployment.administrative.registry_authors", []),
    ],
)
def test_a_wrong_record_cannot_be_made(history: Accountant, where: str, value: object) -> None:
    with pytest.raises(ValidationError):
        Record.model_validate(changed(record_of(history.statement()), where, value))


def test_a_required_field_cannot_be_left_out(history: Accountant) -> None:
    record = record_of(history.statement())
    for path in leaves(record.model_dump(mode="json", exclude_none=True)):
        if path.endswith(".release_type"):
            continue
        document = record.model_dump(mode="json", exclude_none=True)
        *parents, last = path.split(".")
        part = document
        for key in parents:
            part = part[key]
        del part[last]
        with pytest.raises(ValidationError):
            Record.model_validate(document)


def test_a_record_that_was_made_wrong_is_not_written(history: Accountant) -> None:
    record = record_of(history.statement())
    for path, value, words in (
        ("status", "bogus", "status must be 'Converted', 'Draft'"),
        ("tier", 9, "tier must be 1, 2 or 3; got 9"),
        ("url_slug", "a b", "url_slug must be words of letters and digits"),
    ):
        with pytest.raises(InvalidValue, match=words):
            to_yaml(record.model_copy(update={path: value}))
    assert "tier: 1\n" in to_yaml(record.model_copy(update={"tier": True}))


@pytest.mark.parametrize(
    ("where", "value", "words"),
    [
        ("basic.name", " ", "name must not be blank; got ' '"),
        ("basic.publication_date", "2026-1-1", "publication_date must be a day such as"),
    ],
)
def test_mistakes_are_told_in_words(
    history: Accountant, where: str, value: str, words: str
) -> None:
    with pytest.raises(ValidationError, match=words):
        Record.model_validate(changed(record_of(history.statement()), f"deployment.{where}", value))


def test_a_record_cannot_be_changed(history: Accountant) -> None:
    record = record_of(history.statement())
    with pytest.raises(ValidationError):
        record.tier = 3


def forms(node: dict[str, Any], path: str = "") -> dict[str, dict[str, Any]]:
    """Every property of a schema, by its path."""
    found = {}
    for name, part in node.get("properties", {}).items():
        where = f"{path}.{name}".lstrip(".")
        found |= {where: part} | forms(part, where)
    return found


def resolved(node: Any, whole: dict[str, Any]) -> Any:
    """A schema by pydantic with its references followed, and without the choice of null."""
    if isinstance(node, list):
        return [resolved(part, whole) for part in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return resolved(whole["$defs"][node["$ref"].rpartition("/")[2]], whole)
    if "anyOf" in node:
        choices = [part for part in node["anyOf"] if part != {"type": "null"}]
        assert len(choices) == 1
        return resolved(choices[0], whole)
    return {name: resolved(part, whole) for name, part in node.items() if name != "$defs"}


def test_the_form_is_that_of_the_registry() -> None:
    theirs = forms(schema())
    model = Record.model_json_schema()
    ours = forms(resolved(model, model))
    assert set(theirs) - set(ours) == UNFILLED
    assert set(ours) <= set(theirs)
    for path, node in ours.items():
        assert node.get("enum") == theirs[path].get("enum"), path
        kinds = theirs[path].get("type", "string")
        assert node["type"] in ([kinds] if isinstance(kinds, str) else kinds), path
        assert set(theirs[path].get("required", [])) <= set(node.get("required", [])), path
        if node["type"] == "object":
            assert node["additionalProperties"] is False
    assert set(schema()["required"]) <= set(model["required"])
    assert {sector.value for sector in Sector} == set(
        theirs["deployment.basic.data_product_sector"]["enum"]
    )


def test_the_schema_of_the_registry_refuses_what_is_wrong(history: Accountant) -> None:
    schema()
    record = record_of(history.statement(), **GIVEN)
    assert problems(record.model_dump(mode="json", exclude_none=True)) == []
    for path, value in (
        ("status", "draft"),
        ("tier", 4),
        ("deployment.new", "a"),
        ("deployment.basic.publication_date", "2026-02-30"),
        ("deployment.basic.data_product_sector", "Health"),
        ("deployment.privacy_loss.privacy_parameters.epsilon", "1"),
        ("deployment.administrative.registry_authors", []),
    ):
        assert len(problems(changed(record, path, value))) == 1


def test_the_refusals_of_a_ledger_need_no_release(keeper: Accountant, charge: MakeCharge) -> None:
    with pytest.raises(BudgetExceeded):
        keeper.authorize(charge(epsilon="2"), rows=10, columns=["age"])
    keeper.reject("no table")
    written(record_of(keeper.statement()))
