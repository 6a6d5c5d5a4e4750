"""The page: well formed, safe for any text, on the safe side in every number, readable anywhere."""

import html
import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from fractions import Fraction
from html.parser import HTMLParser
from itertools import pairwise, product
from pathlib import Path

import pytest
from typer.testing import CliRunner

from accountant import (
    Accountant,
    Authorization,
    Budget,
    BudgetExceeded,
    Charge,
    GaussianLoss,
    PrivacyUnit,
    PureLoss,
    Statement,
)
from accountant.__main__ import app
from accountant.amounts import show_delta_down, show_delta_up, show_down, show_up, to_text
from accountant.reports.html import TOGETHER, render_html
from accountant.reports.words import STATES, loss_in_full, moment, percent_up, plain_percent
from accountant.specs import AnyBudget

from ..conftest import grant, make_charge, manage, release_one

Release = Callable[[Accountant, Charge], Authorization]

VOID = {"meta", "br", "hr", "img", "link", "input"}
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
HOSTILE = (
    "</bdi></td></table></style></title><script>alert(1)</script>"
    '<img src=x onerror=alert(2)>"\'><a href="javascript:alert(3)">{{ 7*7 }}{% raw %}&amp;'
)


class Page(HTMLParser):
    """Reads a page strictly: every element is closed where it was opened."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.source = text
        self.stack: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, list[str]] = {}
        self.feed(text)
        self.close()
        assert self.stack == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs)
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in {"line", "rect"}
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.setdefault(self.stack[-1] if self.stack else "", []).append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def flat(source: str) -> str:
    """The body without its tags, in order."""
    body = re.sub("</t[hd]>", " ", source.partition("<body>")[2])
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", body)).split())


@pytest.fixture
def rich(keeper: Accountant, path: Path, charge: Callable[..., Charge], release: Release) -> Path:
    """Every kind of entry, in two data sets."""
    columns = ["age", "income"]
    north = keeper.allocate("north", Budget.of("1/3", "1e-6"), actor="officer", purpose="maps")
    keeper.allocate("south", Budget.of("0.1", "1e-6"), actor="officer")
    release(keeper, charge("first", "1/7", "1/700000"))
    release(north, charge("9" * 64, "0.1", "1e-7", "a" * 64))
    dead = keeper.authorize(charge("dead", "0.01"), rows=10, columns=columns)
    assert isinstance(dead, Authorization)
    keeper.void("dead", "the power failed", actor="officer")
    begun = keeper.authorize(charge("begun", "0.02"), rows=10, columns=columns)
    assert isinstance(begun, Authorization)
    keeper.start(begun)
    keeper.authorize(charge("waiting", "0.03"), rows=10, columns=columns)
    with pytest.raises(BudgetExceeded):
        north.authorize(charge("large", "2/3"), rows=10, columns=columns)
    keeper.reject("column age holds text")
    unit = PrivacyUnit(rows_per_person=5)
    terms = {"data_set": "survey", "unit": unit, "actor": "officer"}
    Accountant.grant(path, budget=Budget.of("4/3", "1e-5"), reason="second wave", **terms)
    keeper.allocate("north", Budget.of("0.4", "1e-6"), actor="officer", reason="more maps")
    Accountant.grant(path, data_set="other", budget=Budget.of("1", "1e-6"), unit=unit)
    return path


@pytest.fixture
def squares(tmp_path: Path) -> Path:
    """Every kind of entry in a data set whose mu squared is counted."""
    keeper = grant(tmp_path / "squares.db", "gaussian")
    manage(keeper)
    keeper.reject("column age holds text")
    leaky = GaussianLoss(mu=Fraction(1, 70), leak=Fraction(1, 10**13))
    pure = PureLoss(epsilon=Fraction(1, 70), count=3)
    release_one(keeper, make_charge("leaky", losses=(leaky, pure)))
    keeper.authorize(make_charge("waiting", losses=(leaky,)), rows=10, columns=["age"])
    return tmp_path / "squares.db"


@pytest.fixture(params=["rich", "squares"])
def either(request: pytest.FixtureRequest) -> Statement:
    """A statement of everything under each rule."""
    return statement_of(request.getfixturevalue(request.param))


def up(budget: AnyBudget) -> list[str]:
    if isinstance(budget, Budget):
        return [show_up(budget.epsilon), show_delta_up(budget.delta)]
    return [show_up(budget.mu_above), show_delta_up(budget.delta), show_delta_up(budget.leak)]


def down(budget: AnyBudget) -> list[str]:
    if isinstance(budget, Budget):
        return [show_down(budget.epsilon), show_delta_down(budget.delta)]
    return [
        show_down(budget.mu_below),
        show_delta_down(budget.delta),
        show_delta_down(budget.leak),
    ]


def statement_of(path: Path, data_set: str = "survey") -> Statement:
    return Accountant(path, data_set=data_set).statement()


def many(statement: Statement, number: int) -> Statement:
    """The statement with so many releases, in thirty sizes."""
    lines = tuple(
        statement.charges[index % len(statement.charges)].model_copy(
            update={
                "sequence": 1000 + 3 * index,
                "key": f"question-{index}",
                "plan_hash": f"{index % 30:064x}",
                "budget": Budget.of(Fraction(index % 30 + 1, 10**7), Fraction(1, 10**12)),
                "actor": f"analyst {index % 3}",
            }
        )
        for index in range(number)
    )
    return statement.model_copy(update={"charges": lines})


def hostile(statement: Statement, text: str) -> Statement:
    """The statement with this in every field that holds text, whatever a ledger would allow."""

    def spoil(value: object, field: str = "") -> object:
        if isinstance(value, dict):
            return {key: spoil(part, key) for key, part in value.items()}
        if isinstance(value, list):
            return [spoil(part, field) for part in value]
        safe = {"epsilon", "delta", "mu", "leak", "kind", "relation", "state", "basis"}
        return text if isinstance(value, str) and field not in safe else value

    spoilt = spoil(statement.model_dump(mode="json"))
    assert isinstance(spoilt, dict)

    def rebuilt(model: object, document: object) -> object:
        """Without validation, which refuses most of such text."""
        if hasattr(model, "model_copy") and isinstance(document, dict):
            return model.model_copy(
                update={
                    name: rebuilt(getattr(model, name), part) for name, part in document.items()
                }
            )
        if isinstance(model, tuple) and isinstance(document, list):
            return tuple(map(rebuilt, model, document))
        return document if isinstance(model, str) else model

    made = rebuilt(statement, spoilt)
    assert isinstance(made, Statement)
    return made


def check_form(source: str) -> Page:
    """What must hold of every page."""
    page = Page(source)
    assert source.startswith("<!DOCTYPE html>")
    assert source.isascii()
    assert all(character.isprintable() or character == "\n" for character in source)
    assert page.all("html") == [{"lang": "en"}]
    assert len(page.all("h1")) == 1
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    tables = [index for index, (tag, _) in enumerate(page.tags) if tag == "table"]
    assert all(page.tags[index + 1][0] == "caption" for index in tables)
    assert all("scope" in attributes for attributes in page.all("th"))
    assert {"header", "main", "footer"} <= {tag for tag, _ in page.tags}
    every_id = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    ids = set(every_id)
    assert len(ids) == len(every_id)
    targets = [attributes["href"] or "" for _, attributes in page.tags if "href" in attributes]
    assert all(target.startswith("#") and target[1:] in ids for target in targets)
    for attributes in (attributes for _, attributes in page.tags):
        assert set((attributes.get("aria-labelledby") or "").split()) <= ids
        assert not [
            name for name in attributes if name.startswith("on") or name in ("src", "style")
        ]
    assert not {"script", "link", "img", "iframe", "object", "form"} & {tag for tag, _ in page.tags}
    styles = "".join(page.text["style"])
    assert not re.search(r"url\(|@import|@font-face|expression", styles)
    return page


def test_a_page_of_everything_is_well_formed(rich: Path) -> None:
    page = check_form(render_html([statement_of(rich), statement_of(rich, "other")]))
    assert len(page.all("h1")) == 1
    assert {"content": "default-src 'none'; style-src 'unsafe-inline'"}.items() <= next(
        meta.items() for meta in page.all("meta") if "http-equiv" in meta
    )
    assert {"name": "viewport", "content": "width=device-width, initial-scale=1"} in page.all(
        "meta"
    )
    assert page.text["title"][0] == "Privacy budget report: 2 data sets"


def test_every_bar_says_in_words_what_it_shows(either: Statement) -> None:
    source = render_html([either])
    bars = re.findall(r'<svg class="bar" role="img".*?</svg>', source, re.DOTALL)
    counted = {"sum": ["epsilon", "delta"], "gaussian": ["mu", "delta aside", "leak"]}
    names = counted[either.rule.kind]
    assert len(bars) == len(names) * (2 + len(either.allocations))
    first = "|".join(names)
    for bar in bars:
        title, desc = re.search(r"<title.*?>(.*)</title>\s*<desc.*?>(.*)</desc>", bar).groups()
        assert re.fullmatch(rf"({first}), .+: .+ of .+ spent, .+ remaining", title)
        assert "filled part is spent" in desc
        assert 'class="pool"' in bar
        assert 'class="spent"' in bar


def test_the_pools_lie_side_by_side_on_the_scale_of_the_grant(rich: Path) -> None:
    source = render_html([statement_of(rich)])
    boxes = re.findall(r'class="pool" x="([\d.]+)%" y="2" width="([\d.]+)%"', source)
    whole, free, north, south = [(float(x), float(width)) for x, width in boxes[::2]]
    assert whole == (0, 100)
    assert free[0] == 0
    assert north[0] == pytest.approx(free[1], abs=0.002)
    assert south[0] == pytest.approx(north[0] + north[1], abs=0.002)
    assert south[0] + south[1] == pytest.approx(100, abs=0.002)


def test_every_number_and_word_of_the_statement_appears(either: Statement) -> None:
    statement = either
    shown = flat(render_html([statement]))
    expected = [
        statement.last_hash,
        statement.trust,
        "5 rows",
        "change-one",
        "age, income",
        "10 rows",
    ]
    for pool in (statement, statement.free, *statement.allocations):
        expected += [*down(pool.granted), *up(pool.spent), *down(pool.remaining)]
    terms = [*statement.grants, *(line for pool in statement.allocations for line in pool.grants)]
    for line in terms:
        expected += map(to_text, line.budget.coordinates)
        expected += [moment(line.time), line.actor, line.why]
    for risk in (statement.risk_of_spent, statement.reading_of_grant.risk):
        expected.append(percent_up(risk.advantage))
        expected += [percent_up(rate.at_most) for rate in risk.true_positive_rates]
    for release in statement.charges:
        expected += [release.key, release.plan_hash, release.purpose, release.actor]
        if release.stored_at:
            expected.append(moment(release.stored_at))
        if release.void:
            expected += [moment(release.void.time), release.void.actor, release.void.reason]
        expected += [moment(release.time), release.state, STATES[release.state]]
        expected += [*up(release.budget), *up(release.cost)]
        expected += [release.allocation or "free pool", percent_up(release.risk.advantage)]
        expected += [
            f"{percent_up(rate.at_most)} at {plain_percent(rate.false_positive_rate)}"
            for rate in release.risk.true_positive_rates
            if release.state != "voided"
        ]
        for stage in release.stages:
            expected += [stage.name, *map(loss_in_full, stage.losses)]
            expected += up(statement.rule.cost((stage,)))
    for refusal in statement.refusals:
        expected += [refusal.key, *up(refusal.asked), *down(refusal.remaining)]
        expected += [up(refusal.shortfall)[0], moment(refusal.time)]
    expected += [line.reason for line in statement.rejections]
    assert len(expected) > 120
    assert [text for text in expected if text not in shown] == []
    assert f"ledger of {statement.entries} entries" in shown


def test_a_page_of_squares_says_so_and_speaks_of_no_sum(squares: Path) -> None:
    source = render_html([statement_of(squares)])
    check_form(source)
    shown = flat(source)
    lead = re.search(r"The grant promises (.*?), counted as (.*?)\. Of that, (.*?) were", shown)
    assert lead.groups()[0] == "epsilon 2 and delta 2e-5"
    assert lead.groups()[1] == "mu 0.519743 and delta 1e-6 aside"
    for words in (
        "Charges add up as squares of mu: 0.6 spent of 1 leaves 0.8.",
        "two normal laws of standard deviation 1 whose means are mu apart",
        "from mu, the delta set aside and the leak: an upper bound",
        "Allocated: ana",
        "Gaussian mu 0.0142858, leak 1e-13; 3 x pure 0.0142858",
    ):
        assert words in shown
    for words in ("epsilons, and deltas", "only epsilon and delta are added", "Set aside: ana"):
        assert words not in shown
    whole = re.search(r"Whole grant mu (\S+) (\S+) (\S+)", shown)
    granted, spent, remaining = map(float, whole.groups())
    assert granted**2 == pytest.approx(spent**2 + remaining**2, rel=1e-4)


def test_bars_of_squares_are_as_long_as_squares(squares: Path) -> None:
    """So that side by side they add up, as the numbers beside them do not."""
    statement = statement_of(squares)
    boxes = re.findall(
        r'class="spent" x="([\d.]+)%" y="2" width="([\d.]+)%"', render_html([statement])
    )
    spent, granted = statement.spent.coordinates[0], statement.granted.coordinates[0]
    assert float(boxes[0][1]) == pytest.approx(float(100 * spent / granted), abs=0.001)


def test_each_rounding_is_on_the_safe_side(rich: Path) -> None:
    shown = flat(render_html([statement_of(rich)]))
    lines = ("granted 1.33333", "spent 0.292858", "remaining 1.04047")  # 4/3, 41/140, 437/420
    cells = re.search(r"Whole grant epsilon (\S+) (\S+) (\S+)", shown).groups()
    assert cells == tuple(line.split()[1] for line in lines)
    assert "Of epsilon 1.33333 and delta 1e-5, epsilon 0.292858 and delta 3.52858e-6" in shown
    asked = re.search(
        r"Asked Remaining Missing .*? epsilon (\S+) (\S+) (\S+) delta", shown
    ).groups()
    assert asked == ("0.666667", "0.233333", "0.433334")
    assert "4/3" in shown  # the grant itself is exact
    assert "a factor of e^1.33334" in shown


def test_an_evaluator_finds_an_answer_or_that_there_is_none(rich: Path) -> None:
    shown = flat(render_html([statement_of(rich)]))
    for words in (
        "NIST SP 800-226",
        "Unit of privacy",
        "What is public",
        "Budget and composition",
        "Trust model",
        "Threat model",
        "Mechanisms and correctness",
        "Floating point",
        "Random numbers and sampling",
        "Side channels",
        "Access and security",
        "Utility and bias",
        "Data collection exposure",
        "Who can read the table",
        "How they were chosen. If they were read off the table",
        "accountant verify LEDGER --head HEAD.json",
        "python verify_export.py ledger.jsonl",
    ):
        assert words in shown


def test_delta_is_set_against_the_number_of_rows(keeper: Accountant, release: Release) -> None:
    statement = keeper.statement()
    assert "The number of rows is not recorded yet." in flat(render_html([statement]))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (20_000, "the granted delta is 0.2."),
        (100_000, "is 1: 1 or more, so the delta alone would allow some records"),
    ],
)
def test_a_delta_that_is_too_large_is_told(tmp_path: Path, rows: int, words: str) -> None:
    keeper = Accountant.grant(
        tmp_path / "ledger.db",
        data_set="survey",
        budget=Budget.of("1", "1e-5"),
        unit=PrivacyUnit(rows_per_person=1),
        rows=rows,
        columns=["a"],
    )
    assert words in flat(render_html([keeper.statement()]))


def test_a_ledger_without_grants_says_so() -> None:
    source = render_html([])
    page = check_form(source)
    assert "The ledger holds no grant yet." in flat(source)
    assert page.all("nav") == []


def test_a_new_data_set_has_a_short_page(keeper: Accountant) -> None:
    source = render_html([keeper.statement()])
    check_form(source)
    shown = flat(source)
    assert "Nothing was charged yet." in shown
    assert "There are no allocations: the free pool is the whole grant." in shown
    assert "Charges None yet." in shown
    assert "Refused requests None." in shown
    assert "Unusable data None." in shown


def test_several_data_sets_are_listed_with_links(rich: Path) -> None:
    source = render_html([statement_of(rich), statement_of(rich, "other")])
    contents = re.search(r"<nav.*?</nav>", source, re.DOTALL)[0]
    assert re.findall(r'href="(#d\d)"', contents) == ["#d1", "#d2"]
    assert "survey" in contents
    assert "other" in contents
    assert "If a person is in several of them" in contents
    alone = re.search(r"<nav.*?</nav>", render_html([statement_of(rich)]), re.DOTALL)[0]
    assert "If a person is in several" not in alone
    assert 'href="#d1-charges"' in alone


@pytest.mark.parametrize(
    "text",
    [
        HOSTILE,
        "\u202e</script><script>\u2066\x00\x1b[31m\r\n\x08\x7f\x9b\ud800",
        "\u05d1\u05e8\u05d9\u05d0\u05d5\u05ea <b onmouseover=alert(1)>",
        "]]>--><!--<svg onload=alert(1)>",
        "x" * 5000,
        "&#60;script&#62;",
    ],
    ids=["markup", "controls", "rtl", "comment", "long", "references"],
)
def test_no_text_acts_on_the_page(rich: Path, text: str) -> None:
    plain = check_form(render_html([statement_of(rich)]))
    source = render_html([hostile(statement_of(rich), text)])
    page = check_form(source)
    assert {tag for tag, _ in page.tags} == {tag for tag, _ in plain.tags}
    for needle in ("<script", "<img", '<a href="javascript', "<b ", "<svg onload", "<!--"):
        assert needle not in source
    if text.isprintable():
        assert text in page.text["bdi"]


def test_every_text_of_a_person_is_isolated(rich: Path) -> None:
    """A name from right to left cannot reorder the words around it."""
    text = "\u05d1\u05e8\u05d9\u05d0\u05d5\u05ea"
    page = Page(render_html([hostile(statement_of(rich), text)]))
    isolated = {"bdi", "title", "code"}  # a title or code holds nothing else
    others = [
        part
        for tag, parts in page.text.items()
        for part in parts
        if tag not in isolated and text in part
    ]
    package = "Central: one holder has the table in the clear and adds the noise. "
    assert set(others) <= {text, f"{package}{text}", f"{text} UTC"}  # no person writes these


def test_names_that_may_pass_for_others_show_their_code_points(tmp_path: Path) -> None:
    keeper = Accountant.grant(
        tmp_path / "ledger.db",
        data_set="\u0441\u0430\u0440",
        budget=Budget.of("1", "1e-6"),
        unit=PrivacyUnit(rows_per_person=1),
    )
    assert "\u0441\u0430\u0440 \\u0441\\u0430\\u0440" in flat(render_html([keeper.statement()]))


def test_the_page_is_the_same_every_time(rich: Path) -> None:
    statements = [statement_of(rich), statement_of(rich, "other")]
    assert render_html(statements) == render_html(statements)
    assert time.strftime("%H:%M:%S") not in render_html(statements)


def test_the_script_prints_the_page(rich: Path) -> None:
    result = CliRunner().invoke(app, ["report", str(rich), "--format", "html"])
    assert result.exit_code == 0
    statements = [statement_of(rich), statement_of(rich, "other")]
    assert result.stdout == render_html(statements) + "\n"


def test_what_was_voided_is_not_counted_as_cost(rich: Path) -> None:
    statement = statement_of(rich)
    lines = tuple(
        line.model_copy(update={"actor": f"analyst {index}"})
        for index, line in enumerate(statement.charges)
    )
    shown = flat(render_html([statement.model_copy(update={"charges": lines})]))
    spenders = shown.partition("Who charged how much")[2].partition("Charges, in their order")[0]
    assert [name for name in ("analyst 0", "analyst 1", "analyst 2") if name in spenders] == [
        "analyst 0",
        "analyst 1",
    ]
    assert statement.charges[2].state == "voided"


def test_three_thousand_releases_are_folded_and_fast(rich: Path) -> None:
    statement = many(statement_of(rich), 3000)
    source = render_html([statement])
    assert source.count('<details class="part"') == 3000 / TOGETHER
    assert source.count('<details class="part" open') == 1
    ids = re.findall(r'<tbody id="(.*?)"', source)
    assert len(ids) == len(set(ids)) == 3001  # one is a refusal
    assert len(source) < 8_000_000


def test_colours_are_told_apart_in_light_and_dark(rich: Path) -> None:
    """WCAG 2: text at least 4.5, bars at least 3, on every ground there is."""
    styles = "".join(Page(render_html([statement_of(rich)])).text["style"])
    palettes = [
        dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6});", block))
        for block in re.findall(r":root \{(.*?)\}", styles, re.DOTALL)
    ]
    light, dark = palettes
    assert light.keys() == dark.keys()
    outside = re.sub(r":root \{.*?\}", "", styles, flags=re.DOTALL)
    assert not re.search(r"#[0-9a-f]{3,8}\b|rgb|hsl", outside)
    used = set(re.findall(r"(?<![-\w])color: var\(--([a-z]+)\)", outside))
    grounds = set(re.findall(r"background: var\(--([a-z]+)\)", outside))
    strokes = set(re.findall(r"(?:stroke|fill): var\(--([a-z]+)\)", outside)) - grounds
    assert used == {"ink", "quiet", "link", "alert"}
    assert grounds == {"paper", "panel"}
    for palette in palettes:
        for word, ground in product(used, grounds):
            assert contrast(palette[word], palette[ground]) >= 4.5
        for stroke in strokes:
            assert contrast(palette[stroke], palette["paper"]) >= 3


def contrast(first: str, second: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = [
            part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
        ]
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    dark, light = sorted((luminance(first), luminance(second)))
    return (light + 0.05) / (dark + 0.05)


def test_contrast_is_computed_as_wcag_does() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed: widths are not measured")
@pytest.mark.parametrize("width", [360, 768, 1024])
def test_no_width_scrolls_sideways(rich: Path, tmp_path: Path, width: int) -> None:
    statement = hostile(statement_of(rich), "x" * 500)
    exact = Fraction(10**400 + 1, 3 * 10**400 + 7)
    grants = tuple(
        line.model_copy(update={"budget": Budget.of(exact, "1e-9")}) for line in statement.grants
    )
    source = render_html([statement_of(rich), statement.model_copy(update={"grants": grants})])
    opened = source.replace("<details>", "<details open>")
    frame = f'<iframe width="{width}" height="800" srcdoc="{html.escape(opened)}"></iframe>'
    script = (
        "const frame = document.querySelector('iframe');"
        "const page = frame.contentDocument.documentElement;"
        "document.body.innerHTML = JSON.stringify({width: page.scrollWidth});"
    )
    holder = tmp_path / "holder.html"
    holder.write_text(
        f"<!DOCTYPE html><style>iframe {{ border: 0 }}</style><body>{frame}"
        f"<script>addEventListener('load', () => {{ {script} }})</script></body>"
    )
    result = subprocess.run(
        [
            CHROMIUM,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--window-size=1200,900",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--dump-dom",
            holder.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    measured = json.loads(re.search(r'\{"width":\d+\}', result.stdout)[0])
    assert measured["width"] <= width
