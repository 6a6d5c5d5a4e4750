import math
import signal
import threading
import time
import warnings
from datetime import UTC, datetime
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import opendp.prelude as dp
import pytest

from accountant import (
    Accountant,
    Budget,
    Charge,
    KeyConflict,
    LedgerUnreadable,
    PrivacyUnit,
    Stage,
    UnitMismatch,
    verify,
)
from dppca_odp.directions import Directions
from dppca_odp.eigenvalues.adaptive import Adaptive
from dppca_odp.eigenvalues.clipped import Clipped
from dppca_odp.eigenvalues.huber import Huber
from dppca_odp.eigenvalues.pmwm import PMWM
from dppca_odp.eigenvalues.scree import Scree
from dppca_odp.errors import LossExceedsCharge, PoorOutlook, ReleaseFailed
from dppca_odp.plan import Plan
from dppca_odp.releases import Release, ReleasedDirections
from dppca_odp.session import (
    UNCHARGED,
    UNKNOWN,
    charge_and_release,
    check_loss,
    from_ledger,
    interrupts_deferred,
)
from dppca_odp.spaces import approximate, matrix_domain, rows_metric
from dppca_odp.values import as_matrix

COLUMNS = ("a",)
UNIT = PrivacyUnit(rows_per_person=1)
CHARGE = Charge(
    release_key="first",
    plan_hash="0" * 64,
    unit=UNIT,
    budget=Budget.of("0.1", "1e-6"),
    stages=(Stage(name="mean", budget=Budget.of("0.1", "1e-6"), losses=()),),
)


def measurement(function, epsilon=0.05, delta=1e-7):
    """A measurement on tables of five rows and one column."""
    return dp.m.make_user_measurement(
        matrix_domain(5, 1),
        rows_metric(),
        approximate(),
        function,
        lambda d_in: (epsilon * d_in, delta * d_in),
    )


@pytest.fixture
def accountant(tmp_path):
    return Accountant.grant(
        tmp_path / "ledger.db",
        data_set="clinic",
        budget=Budget.of("1", "1e-5"),
        unit=UNIT,
    )


@pytest.fixture
def caught():
    """Signals that reached our own handler, installed for this test."""
    seen = []

    def handler(number, frame):
        seen.append(number)

    before = signal.signal(signal.SIGINT, handler)
    yield seen
    assert signal.getsignal(signal.SIGINT) is handler
    signal.signal(signal.SIGINT, before)


def record(answer, key):
    """A release whose one number is the answer."""
    return Release(
        data_set="clinic",
        release_key=key,
        plan_hash=CHARGE.plan_hash,
        time=datetime(2024, 5, 17, tzinfo=UTC),
        budget=CHARGE.budget,
        unit=UNIT,
        rows=5,
        columns=COLUMNS,
        stages=CHARGE.stages,
        results=(ReleasedDirections(name="d", vectors=((1.0,),), noise_scale=answer),),
        versions={},
    )


def pay(accountant, function, *, fresh=False, charge=CHARGE, table=None, record=record):
    return charge_and_release(
        accountant,
        charge,
        measurement=measurement(function),
        table=np.full((5, 1), 31337.25) if table is None else table,
        columns=COLUMNS,
        fresh=fresh,
        record=record,
    )


def answer(release):
    return release["d"].noise_scale


def kinds(accountant):
    return [entry.kind for entry in accountant.entries()]


class TestLoss:
    def test_a_map_within_the_plan_passes(self):
        check_loss(measurement(len), 1, Budget.of("0.06", "2e-7"))

    def test_a_map_of_exactly_the_plan_passes(self):
        exactly = Budget.of(Fraction(0.05), Fraction(1e-7))
        check_loss(measurement(len), 1, exactly)

    @pytest.mark.parametrize(
        "planned",
        [
            Budget.of(Fraction(0.05) - Fraction(1, 2**70), "1e-6"),
            Budget.of("0.1", Fraction(1e-7) - Fraction(1, 2**90)),
        ],
        ids=["epsilon", "delta"],
    )
    def test_a_map_a_hair_above_the_plan_is_stopped(self, planned):
        with pytest.raises(
            LossExceedsCharge, match=r"^the privacy map must be at most the charge, epsilon"
        ):
            check_loss(measurement(len), 1, planned)

    def test_the_float_of_a_tenth_is_more_than_a_tenth(self):
        with pytest.raises(LossExceedsCharge, match=r"got epsilon 0\.1 and delta 1e-07"):
            check_loss(measurement(len, epsilon=0.1), 1, Budget.of("0.1", "1e-6"))

    def test_the_loss_is_that_of_the_unit(self):
        check_loss(measurement(len), 1, Budget.of("0.1", "1e-6"))
        with pytest.raises(LossExceedsCharge, match=r"got epsilon 0\.15000000000000002"):
            check_loss(measurement(len), 3, Budget.of("0.1", "1e-6"))

    @pytest.mark.parametrize("epsilon", [math.inf, math.nan])
    def test_a_loss_that_is_no_number_is_stopped(self, epsilon):
        unknown = SimpleNamespace(map=lambda d_in: (epsilon, 1e-7))
        with pytest.raises(LossExceedsCharge, match=f"got epsilon {epsilon} and delta 1e-07"):
            check_loss(unknown, 1, Budget.of("1e300", "1e-6"))

    def test_the_message_says_that_nothing_was_charged(self):
        with pytest.raises(LossExceedsCharge) as caught:
            check_loss(measurement(len), 1, Budget.of("0.01", "1e-6"))
        expected = (
            "the privacy map must be at most the charge, epsilon 0.01 and delta 1e-6; got "
            "epsilon 0.05 and delta 1e-07. Nothing was charged: please report this bug."
        )
        assert expected == str(caught.value)


class TestRelease:
    def test_it_is_charged_started_measured_and_stored(self, accountant):
        release = pay(accountant, lambda table: len(table))
        assert record(5, "first") == release
        assert release.from_ledger is False
        assert ["grant", "table", "charge", "started", "release"] == kinds(accountant)
        assert CHARGE.budget == accountant.spent()

    def test_it_is_charged_and_started_before_the_data_is_touched(self, accountant):
        seen = []
        pay(accountant, lambda table: seen.extend(kinds(accountant)) or 0)
        assert ["grant", "table", "charge", "started"] == seen

    def test_a_stored_release_is_handed_back_without_touching_the_data(self, accountant):
        pay(accountant, lambda table: 1)
        again = pay(accountant, lambda table: 2)
        assert again.from_ledger is True
        assert record(1, "first").model_dump() == again.model_dump()
        assert CHARGE.budget == accountant.spent()

    def test_a_stored_release_is_read_back_from_the_ledger(self, accountant):
        first = pay(accountant, lambda table: 1)
        again = from_ledger(accountant.stored("first", CHARGE.plan_hash))
        assert again.from_ledger is True
        assert first == again.model_copy(update={"from_ledger": False})

    def test_what_is_stored_is_the_release(self, accountant):
        release = pay(accountant, lambda table: 1)
        assert release.model_dump(mode="json") == accountant.entries()[-1].document()

    def test_a_charge_for_another_unit_is_refused_before_the_data_is_touched(self, accountant):
        other = CHARGE.model_copy(update={"unit": PrivacyUnit(rows_per_person=2)})
        with pytest.raises(UnitMismatch, match="unit must be that of the grant"):
            pay(accountant, failing, charge=other)
        assert Budget.of(0, 0) == accountant.spent()
        assert "charge" not in kinds(accountant)

    def test_fresh_is_stored_under_a_key_of_its_own(self, accountant):
        pay(accountant, lambda table: 1)
        again = pay(accountant, lambda table: 2, fresh=True)
        assert 2 == answer(again)
        assert again.release_key != "first"
        assert again.from_ledger is False
        assert CHARGE.budget + CHARGE.budget == accountant.spent()


def failing(table):
    raise RuntimeError(f"the first cell is {table[0, 0]}")


class TestFailure:
    @pytest.mark.parametrize(
        ("function", "record", "kind"),
        [
            (lambda table: failing(table), record, "OpenDPException"),
            (
                lambda table: 1,
                lambda answer, key: failing(np.full((5, 1), 31337.25)),
                "RuntimeError",
            ),
            (lambda table: table[0, 0], lambda answer, key: answer, "AttributeError"),
            (lambda table: f"{table[0, 0]}x", record, "InvalidValue"),
        ],
        ids=["the measurement", "the record", "no release", "an answer that is none"],
    )
    def test_an_error_inside_leaves_without_private_text_or_chained_context(
        self, accountant, function, record, kind
    ):
        with pytest.raises(ReleaseFailed) as caught:
            pay(accountant, function, record=record)
        error = caught.value
        assert "31337" not in str(error)
        assert (None, None) == (error.__cause__, error.__context__)
        expected = (
            f"the release must be measured and stored; got {kind}. Its charge under key first "
            "stays: run again, which costs nothing if the release is stored after all, and else "
            "pays for a new one."
        )
        assert expected == str(error)
        assert CHARGE.budget == accountant.spent()
        assert "31337" not in "".join(entry.body for entry in accountant.entries())

    def test_the_key_in_the_message_is_the_one_that_was_charged(self, accountant):
        pay(accountant, lambda table: 1)
        with pytest.raises(ReleaseFailed, match="Its charge under key first#2 stays"):
            pay(accountant, failing, fresh=True)

    def test_its_charge_stays_and_the_ledger_verifies(self, accountant):
        with pytest.raises(ReleaseFailed, match="Its charge under key first stays"):
            pay(accountant, failing)
        assert ["grant", "table", "charge", "started"] == kinds(accountant)
        assert CHARGE.budget == accountant.spent()
        assert [] == verify(accountant.ledger.entries())

    def test_another_release_can_be_paid_for_after_it(self, accountant):
        with pytest.raises(ReleaseFailed, match="stays"):
            pay(accountant, failing)
        assert 7 == answer(pay(accountant, lambda table: 7))
        assert CHARGE.budget + CHARGE.budget == accountant.spent()

    def test_a_table_of_another_shape_fails_without_its_values(self, accountant):
        with pytest.raises(ReleaseFailed) as caught:
            pay(accountant, lambda table: as_matrix(table, 5, 1), table=np.full((4, 2), 31337.25))
        assert "31337" not in str(caught.value)


class TestInterrupts:
    @pytest.mark.parametrize(
        ("error", "told"),
        [
            (LedgerUnreadable("the commit was not acknowledged"), UNKNOWN),
            (OSError(), UNKNOWN),
            (UnitMismatch("another unit"), UNCHARGED),
            (KeyConflict("another plan"), UNCHARGED),
        ],
        ids=lambda value: type(value).__name__,
    )
    def test_an_interrupt_claims_no_more_than_is_known_of_the_charge(
        self, accountant, monkeypatch, error, told
    ):
        def authorize(*_, **__):
            signal.raise_signal(signal.SIGINT)
            raise error

        monkeypatch.setattr(accountant, "authorize", authorize)
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt) as interrupt:
                pay(accountant, lambda table: 1)
        finally:
            signal.signal(signal.SIGINT, before)
        assert (told,) == interrupt.value.args

    def test_an_interrupt_waits_until_the_block_ends(self, caught):
        with interrupts_deferred("a little"):
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            assert [] == caught
        assert caught == [signal.SIGINT]

    def test_no_interrupt_calls_nothing(self, caught):
        with interrupts_deferred("a little"):
            pass
        assert [] == caught

    def test_pythons_own_handler_raises_after_the_block(self):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        done = []

        def work():
            with interrupts_deferred("a little"):
                signal.raise_signal(signal.SIGINT)
                done.append("the rest of the block")

        try:
            with pytest.raises(KeyboardInterrupt):
                work()
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        finally:
            signal.signal(signal.SIGINT, before)
        assert ["the rest of the block"] == done

    def test_an_ignored_interrupt_stays_ignored(self):
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            with interrupts_deferred("a little"):
                signal.raise_signal(signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        finally:
            signal.signal(signal.SIGINT, before)

    def test_an_error_in_the_block_leaves_and_the_handler_comes_back(self, caught):
        with pytest.raises(LookupError), interrupts_deferred("a little"):
            raise LookupError
        assert [] == caught

    def test_an_interrupt_is_not_lost_when_the_block_fails(self, caught):
        def work():
            with interrupts_deferred("a little"):
                signal.raise_signal(signal.SIGINT)
                raise LookupError

        with pytest.raises(LookupError):
            work()
        assert caught == [signal.SIGINT]

    def test_contexts_nest_and_the_interrupt_waits_for_the_outermost(self, caught):
        outside = signal.getsignal(signal.SIGINT)
        with interrupts_deferred("a little"):
            deferred = signal.getsignal(signal.SIGINT)
            with interrupts_deferred("a little"):
                signal.raise_signal(signal.SIGINT)
                assert [] == caught
            assert deferred is signal.getsignal(signal.SIGINT)
            assert [] == caught
        assert [signal.SIGINT] == caught
        assert outside is signal.getsignal(signal.SIGINT)

    def test_a_keyboard_interrupt_leaves_the_outermost_context_alone(self):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        done = []

        def work():
            with interrupts_deferred("a little"):
                with interrupts_deferred("a little"):
                    signal.raise_signal(signal.SIGINT)
                    done.append("inner")
                with interrupts_deferred("a little"):
                    signal.raise_signal(signal.SIGINT)
                    done.append("next")
                done.append("outer")

        try:
            with pytest.raises(KeyboardInterrupt):
                work()
            assert signal.default_int_handler is signal.getsignal(signal.SIGINT)
        finally:
            signal.signal(signal.SIGINT, before)
        assert ["inner", "next", "outer"] == done

    def test_an_error_in_an_inner_context_leaves_the_outer_one_in_place(self, caught):
        def work():
            with interrupts_deferred("a little"):
                signal.raise_signal(signal.SIGINT)
                raise LookupError

        with interrupts_deferred("a little"):
            deferred = signal.getsignal(signal.SIGINT)
            with pytest.raises(LookupError):
                work()
            assert deferred is signal.getsignal(signal.SIGINT)
            assert [] == caught
        assert [signal.SIGINT] == caught

    def test_an_interrupt_before_the_charge_still_finishes_the_release(self, accountant, caught):
        with interrupts_deferred("a little"):
            signal.raise_signal(signal.SIGINT)
            release = pay(accountant, lambda table: 3)
            assert [] == caught
        assert 3 == answer(release)
        assert [signal.SIGINT] == caught
        assert "release" == kinds(accountant)[-1]

    def test_a_worker_thread_leaves_the_handler_alone(self, caught):
        handlers = []

        def work():
            with interrupts_deferred("a little"):
                handlers.append(signal.getsignal(signal.SIGINT))

        here = signal.getsignal(signal.SIGINT)
        worker = threading.Thread(target=work)
        worker.start()
        worker.join()
        assert handlers == [here]

    def test_a_release_that_is_interrupted_is_finished_first(self, accountant, caught):
        def interrupted(table):
            signal.raise_signal(signal.SIGINT)
            return 3

        assert 3 == answer(pay(accountant, interrupted))
        assert caught == [signal.SIGINT]
        assert "release" == kinds(accountant)[-1]

    def test_releases_from_several_threads_take_turns(self, accountant):
        inside, most = [], []

        def slow(table):
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.01)
            inside.pop()
            return 1

        def work(number):
            charge = CHARGE.model_copy(update={"release_key": f"thread {number}"})
            pay(accountant, slow, charge=charge)

        workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert [1] * 8 == most
        assert 8 == kinds(accountant).count("release")


class TestFloatingPoint:
    """Whatever the settings of NumPy are: a row that underflows must not be told from another."""

    @pytest.mark.parametrize("setting", ["raise", "warn"])
    @pytest.mark.parametrize(
        "method",
        [
            Adaptive(),
            Clipped(clipping_bound=1),
            PMWM(lower_bound=0, upper_bound=9),
            Huber(lowest_scale=-4, highest_scale=5, scale_fraction="1/4"),
        ],
        ids=lambda method: method.kind,
    )
    def test_no_row_stops_a_release_by_its_floating_point(self, tmp_path, setting, method):
        plan = Plan(
            budget=Budget.of("1", "1e-6"),
            unit=PrivacyUnit(rows_per_person=1),
            columns=("a", "b"),
            releases=(
                Directions(name="directions", components=2),
                Scree(name="scree", directions="directions", method=method),
            ),
        )
        table = np.zeros((500, 2))
        table[3] = 1e-200, 1e300
        accountant = Accountant.grant(
            tmp_path / "ledger.db", data_set="d", budget=plan.budget, unit=plan.unit
        )
        with np.errstate(all=setting), warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", PoorOutlook)
            release = plan.run(table, accountant)
        assert np.isfinite(release["scree"].values).all()
