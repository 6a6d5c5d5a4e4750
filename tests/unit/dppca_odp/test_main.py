from datetime import UTC, datetime

import pytest

from accountant import Budget, PrivacyUnit
from dppca_odp.__main__ import check_writable, exit_status, write_release
from dppca_odp.errors import (
    DppcaError,
    InvalidPlan,
    LossExceedsCharge,
    ReleaseFailed,
    UnusableTable,
)
from dppca_odp.releases import Release, ReleasedDirections

RELEASE = Release(
    data_set="clinic",
    release_key="first",
    plan_hash="0" * 64,
    time=datetime(2024, 5, 17, tzinfo=UTC),
    budget=Budget.of("1/3", "1e-6"),
    unit=PrivacyUnit(rows_per_person=2),
    rows=100,
    columns=("a",),
    stages=(),
    results=(ReleasedDirections(name="main", vectors=((1.0,),), noise_scale=0.1),),
    versions={},
)


def left(capsys, work):
    """The exit status and the one line on stderr."""
    with pytest.raises(SystemExit) as caught:
        work()
    shown = capsys.readouterr()
    assert "" == shown.out
    (line,) = shown.err.splitlines()
    return caught.value.code, line


def test_a_check_of_a_folder_changes_nothing(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / ".writable").touch()
    before = sorted(tmp_path.rglob("*"))
    for name in ("", "empty", "new", "new/out", "new/../empty"):
        check_writable(tmp_path / name)
    assert before == sorted(tmp_path.rglob("*"))


@pytest.mark.parametrize("name", ["file", "file/new", "link", "link/new", "long" * 100])
def test_an_output_that_is_no_folder_is_refused_before_anything_is_charged(tmp_path, capsys, name):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    path = tmp_path / name
    expected = f"dppca-odp: out must be a folder that can be written; got {path}. Choose another."
    assert (2, expected) == left(capsys, lambda: check_writable(path))


def test_a_release_without_eigenvalues_is_written_without_a_picture(tmp_path):
    folder = tmp_path / "new" / "out"
    write_release(RELEASE, folder)
    assert RELEASE == Release.read(folder / "release.json")
    assert ["release.json"] == [path.name for path in folder.iterdir()]


def test_a_release_that_cannot_be_written_is_said_to_be_paid_for(tmp_path, capsys):
    folder = tmp_path / "file"
    folder.touch()
    expected = (
        f"dppca-odp: out must be a folder that can be written; got {folder}. The release is paid "
        "for and in the ledger: run again with another folder and not "
        "fresh, at no cost."
    )
    assert (2, expected) == left(capsys, lambda: write_release(RELEASE, folder))


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (InvalidPlan("a plan"), 2),
        (UnusableTable("a table"), 4),
        (LossExceedsCharge("a loss"), 1),
        (ReleaseFailed("a release"), 1),
        (DppcaError("another"), 1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_error_has_its_exit_status(capsys, error, status):
    def work():
        with exit_status():
            raise error

    assert (status, f"dppca-odp: {error}") == left(capsys, work)


@pytest.mark.parametrize("told", ["", "Nothing was charged."])
def test_an_interrupt_is_said_to_be_one_with_what_is_known(capsys, told):
    def work():
        with exit_status():
            raise KeyboardInterrupt(*[told] * bool(told))

    assert (130, f"dppca-odp: interrupted. {told}".strip()) == left(capsys, work)
