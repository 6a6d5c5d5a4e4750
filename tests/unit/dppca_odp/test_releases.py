from datetime import UTC, datetime

import pytest
from pydantic import ValidationError
from rich.console import Console

from accountant import Budget, GaussianLoss, PrivacyUnit, Stage
from dppca_odp.printing import LARGEST_NOTE, NOISE_NOTE, SAMPLING_NOTE
from dppca_odp.releases import (
    Release,
    ReleasedDirections,
    ReleasedScree,
)

BUDGET = Budget.of("1/3", "1e-6")


def scree(name="scree", values=(4.0, 0.0), warnings=()):
    total = sum(values) or 1
    return ReleasedScree(
        name=name,
        method="clipped",
        directions="directions",
        values=values,
        proportions=tuple(value / total for value in values),
        raw=tuple(value - 0.1 for value in values),
        noise_scales=tuple(0.1 for _ in values),
        lower=tuple(0.0 for _ in values),
        upper=tuple(9.0 for _ in values),
        warnings=warnings,
    )


def directions(name="directions", rows=2, components=2):
    vectors = tuple(tuple(float(i == j) for j in range(components)) for i in range(rows))
    return ReleasedDirections(name=name, vectors=vectors, noise_scale=0.01)


def release(*results, columns=("height", "weight")):
    return Release(
        data_set="clinic",
        release_key="first",
        plan_hash="0" * 64,
        time=datetime(2024, 5, 17, 12, 30, tzinfo=UTC),
        budget=BUDGET,
        unit=PrivacyUnit(rows_per_person=2),
        rows=100,
        columns=columns,
        stages=(Stage(name="scree: mean", budget=BUDGET, losses=(GaussianLoss(mu="0.1"),)),),
        results=results or (directions(), scree()),
        versions={"opendp": "0.16.0"},
    )


def test_what_is_written_is_read_back(tmp_path):
    first = release()
    first.write(tmp_path / "release.json")
    assert Release.read(tmp_path / "release.json") == first


def test_json_goes_both_ways():
    first = release()
    assert Release.model_validate_json(first.model_dump_json()) == first


def test_the_file_is_utf_8_whatever_the_names(tmp_path):
    first = release(columns=("Größe", "体重"))
    first.write(tmp_path / "release.json")
    assert Release.model_validate_json((tmp_path / "release.json").read_bytes()) == first


def test_whether_it_is_from_the_ledger_is_no_part_of_what_is_written():
    again = release().model_copy(update={"from_ledger": True})
    assert "from_ledger" not in again.model_dump()
    assert Release.model_validate_json(again.model_dump_json()).from_ledger is False


def test_an_unknown_key_is_refused():
    record = release().model_dump(mode="json") | {"data": [[1.0, 2.0]]}
    with pytest.raises(ValidationError, match="data\n  Extra inputs are not permitted"):
        Release.model_validate(record)


def test_a_release_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        release().rows = 5


def test_results_are_found_by_name():
    assert release()["scree"] == scree()
    assert release()["directions"] == directions()


def test_an_unknown_name_is_refused_with_the_known_ones():
    expected = "name must be one of directions, scree; got pca. Use the plan's name for it."
    with pytest.raises(KeyError, match=expected):
        release()["pca"]


def test_screes_come_in_the_plans_order():
    first, second = scree("first"), scree("second")
    assert release(first, directions(), second).screes == (first, second)


def test_warnings_say_which_release_they_are_about():
    shown = release(scree("first", warnings=("component 1: note",)), scree("second"))
    assert ("first: component 1: note",) == shown.warnings
    assert "note: first: component 1: note" in str(shown)


def test_the_text_shows_every_value():
    lines = str(release(directions(), scree(values=(12.5, 0.25)))).splitlines()
    rows = [line.split() for line in lines]
    assert ["scree", "1", "12.5", "0.1", "98.0%"] in rows  # an older release: no intervals
    assert ["2", "0.25", "0.1", "2.0%"] in rows
    assert ["height", "+1.00", "+0.00"] in rows
    assert ["weight", "+0.00", "+1.00"] in rows


@pytest.mark.parametrize("components", [1, 5, 8, 12, 20])
def test_the_text_fits_100_columns_and_loses_nothing(components):
    columns = tuple(f"measurement {number}" for number in range(20))
    values = tuple(1234567.8 / (number + 1) for number in range(components))
    shown = str(
        release(directions("directions", 20, components), scree(values=values), columns=columns)
    )
    assert max(map(len, shown.splitlines())) <= 100
    assert "…" not in shown


def with_bars(**more):
    bars = {
        "noise_low": (3.804, 0.0),
        "noise_high": (4.196, 0.196),
        "sampling_scales": (0.58, 0.0),
        "flags": (("heavy tail",), ("not found", "at zero")),
    }
    return scree().model_copy(update=bars | more)


def test_the_text_shows_intervals_and_sampling_and_says_what_they_are():
    shown = str(release(directions(), with_bars()))
    rows = [line.split() for line in shown.splitlines()]
    assert ["scree", "1", "4", "0.1", "3.804", "to", "4.196", "0.58", "100.0%"] in rows
    assert ["2", "not", "found", "0.0%"] in rows
    assert shown.index(NOISE_NOTE[:60]) < shown.index(SAMPLING_NOTE[:60])


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("size", [1e-7, 1.0, 1234567.8])
def test_the_text_with_intervals_fits_and_loses_nothing(width, size):
    values = tuple(size / (number + 1) for number in range(20))
    shown = scree(values=values).model_copy(
        update=dict.fromkeys(("noise_low", "noise_high", "sampling_scales"), values)
    )
    console = Console(width=width, color_system=None, force_jupyter=False)
    with console.capture() as captured:
        console.print(release(directions("directions", 2, 2), shown))
    lines = captured.get().splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in captured.get()
    assert all(f"{value:.4g} to {value:.4g}" in captured.get() for value in values)


def test_an_older_release_is_read_and_stays_as_it_was():
    older = release().model_dump(mode="json")
    assert not {"noise_low", "noise_high", "sampling_scales", "flags"} & set(older["results"][1])
    assert Release.model_validate(older).model_dump(mode="json") == older
    assert () == Release.model_validate(older)["scree"].flags_of(1)


def test_intervals_and_flags_go_both_ways():
    first = release(directions(), with_bars())
    assert Release.model_validate_json(first.model_dump_json()) == first
    assert ("not found", "at zero") == first["scree"].flags_of(1)


@pytest.mark.parametrize("name", ["noise_low", "noise_high", "sampling_scales", "flags"])
def test_what_is_not_one_for_each_component_is_refused(name):
    record = with_bars().model_dump(mode="json")
    record[name] = record[name][:1]
    with pytest.raises(
        ValidationError, match=f"{name} must be one for each of 2 components; got 1. Use a"
    ):
        ReleasedScree.model_validate(record)


def test_a_long_name_is_shown_in_full():
    name = "a name of a release that goes on and on"
    shown = str(release(directions(name), scree(f"{name} forever")))
    assert max(map(len, shown.splitlines())) <= 100
    assert "…" not in shown


OLD = """{"data_set": "clinic", "release_key": "first", "plan_hash": "00", "rows": 100,
  "time": "2024-05-17T12:30:00Z", "budget": {"epsilon": "1/3", "delta": "1e-6"},
  "unit": {"rows_per_person": 2}, "columns": ["height", "weight"], "stages": [],
  "results": [{"kind": "directions", "name": "%s", "vectors": [[1.0], [0.0]], "noise_scale": 0.01},
    {"kind": "scree", "name": "scree", "method": "clipped", "directions": "%s", "values": [4.0],
     "proportions": [1.0], "raw": [4.0], "noise_scales": [0.1], "lower": [0.0], "upper": [9.0],
     "warnings": []}], "versions": {}}"""


@pytest.mark.parametrize("name", ["main", "axes"])
def test_a_release_from_before_there_were_scales_reads_as_it_did(tmp_path, name):
    (tmp_path / "release.json").write_text(OLD % (name, name))
    old = Release.read(tmp_path / "release.json")
    assert ((1.0,), (0.0,)) == old[name].vectors == old[name].loadings
    assert () == old[name].scales == old[name].warnings == old.column_variances
    assert ["scree"] == [scree.name for scree in old.screes]
    assert {"kind", "name", "vectors", "noise_scale"} == old.model_dump()["results"][0].keys()
    rows = [line.split() for line in str(old).splitlines()]
    assert ["height", "+1.00"] in rows
    assert ["scree", "1", "4", "0.1", "100.0%"] in rows


def scaled(**changes):
    return directions().model_copy(update={"scales": (2e6, 1.0)} | changes)


def test_scaled_directions_are_shown_in_both_units_with_their_scales():
    shown = str(release(scaled(vectors=((0.6, 0.8), (0.8, -0.6)))))
    rows = [line.split() for line in shown.splitlines()]
    assert "directions, of scaled columns" in shown
    assert ["height", "+0.60", "+0.80"] in rows
    assert "directions, in data units" in shown
    assert ["height", "2e+06", "+3e-07", "+4e-07"] in rows
    assert ["weight", "1", "+0.8", "-0.6"] in rows
    assert "3" not in shown.split()


def test_warnings_of_directions_are_shown():
    assert "note: directions: weight: left unscaled" in str(
        release(scaled(warnings=("weight: left unscaled",)))
    )


def test_scaled_directions_are_read_back(tmp_path):
    first = release(scaled(warnings=("weight: left unscaled",)))
    first.write(tmp_path / "release.json")
    assert Release.read(tmp_path / "release.json") == first


@pytest.mark.parametrize("scales", [(1.0,), (1.0, 2.0, 3.0)])
def test_another_number_of_scales_is_refused(scales):
    record = directions().model_dump() | {"scales": scales}
    expected = f"scales must be one for each of 2 columns; got {len(scales)}. Use a release"
    with pytest.raises(ValidationError, match=expected):
        ReleasedDirections.model_validate(record)


@pytest.mark.parametrize("scale", [0.0, -1.0])
def test_scales_that_cannot_divide_are_refused(scale):
    with pytest.raises(ValidationError, match="greater than 0"):
        ReleasedDirections.model_validate(directions().model_dump() | {"scales": (1.0, scale)})


def test_variances_of_columns_are_shown_by_column_and_are_no_eigenvalues():
    of_columns = scree("variances").model_copy(update={"directions": "axes"})
    both = release(of_columns, directions(), scree())
    assert ((of_columns,), (scree(),)) == (both.column_variances, both.screes)
    shown = str(release(of_columns))
    rows = [line.split() for line in shown.splitlines()]
    assert ["height", "4", "0.1"] in rows
    assert ["weight", "0", "0.1"] in rows
    assert "eigenvalues" not in shown
    assert "95 % interval" in shown


@pytest.mark.parametrize("components", [1, 5, 20])
def test_the_text_of_scaled_directions_fits_100_columns(components):
    columns = tuple(f"measurement {number}" for number in range(20))
    wide = directions("directions", 20, components)
    wide = wide.model_copy(update={"scales": (1.234567e-160,) * 20})
    shown = str(release(wide, columns=columns))
    assert max(map(len, shown.splitlines())) <= 100
    assert "…" not in shown


MANY = 40


def of_many(**changes):
    """Component 1 is mostly column 7 and less of 3; component 2 the same of all columns."""
    first = [0.0] * MANY
    first[7], first[3], first[0] = -0.9, 0.4, 0.1732
    vectors = tuple((value, MANY**-0.5) for value in first)
    return directions().model_copy(update={"vectors": vectors} | changes)


@pytest.mark.parametrize("scales", [(), (4.0,) * MANY])
def test_of_many_columns_the_largest_loadings_are_shown_in_order(scales):
    columns = tuple(f"item-{number}" for number in range(MANY))
    shown = str(release(of_many(scales=scales), columns=columns))
    rows = [line.split() for line in shown.splitlines()]
    (largest,) = [row for row in rows if row[1:3] == ["item-7", "-0.90"]]
    assert ["1", "item-7", "-0.90", *["-0.225"] * bool(scales), "item-0"] == largest[
        : -1 - bool(scales)
    ]
    (second,) = [row for row in rows if row[1:3] == ["item-3", "+0.40"]]
    assert "2" == second[0]
    assert not any(row[1:2] == ["item-0"] and row[2] == "+0.17" for row in rows)  # 97 % is enough
    (parts,) = [row for row in rows if row[:1] == ["part"]]
    assert ["part", "97%", "25%"] == parts
    assert "10" in [row[0] for row in rows if row]
    assert "11" not in [row[0] for row in rows if row]
    assert LARGEST_NOTE in " ".join(shown.split())


@pytest.mark.parametrize("scales", [(), (1.234567e-160,) * MANY])
@pytest.mark.parametrize("name", ["x", "measurement", "a long name of a measurement by somebody"])
@pytest.mark.parametrize("width", [80, 100])
def test_many_columns_fit_a_terminal(scales, name, width):
    columns = tuple(f"{name} {number}" for number in range(MANY))
    wide = directions("a name of directions that goes on", MANY, 7)
    console = Console(width=width, color_system=None, force_jupyter=False)
    with console.capture() as captured:
        console.print(release(wide.model_copy(update={"scales": scales}), columns=columns))
    assert max(map(len, captured.get().splitlines())) <= width
    assert "…" not in captured.get()
    assert "component 7" in captured.get()


def test_directions_alone_make_no_table_of_eigenvalues():
    assert "variance" not in str(release(directions()))


def test_eigenvalues_alone_make_no_table_of_loadings():
    assert "+1.00" not in str(release(scree()))
