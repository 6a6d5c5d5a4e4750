import signal
import threading
from fractions import Fraction

import numpy as np
import opendp.prelude as dp
import pytest

from accountant import Accountant, Budget, Charge, PrivacyUnit, Stage, StoredRelease, verify
from dppca_odp.errors import PriceMismatch, ReleaseFailed
from dppca_odp.primitives.pairs import check_shape
from dppca_odp.session import check_price, interrupts_deferred, measure, release_paid
from dppca_odp.spaces import approximate, matrix_domain, rows_metric

COLUMNS = ("a",)
CHARGE = Charge(
    release_key="first",
    plan_hash="0" * 64,
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
        unit=PrivacyUnit(rows_per_person=1),
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


def pay(accountant, function, *, fresh=False):
    return release_paid(
        accountant,
        CHARGE,
        measurement=measurement(function),
        table=np.full((5, 1), 31337.25),
        columns=COLUMNS,
        fresh=fresh,
        record=lambda answer, key: {"answer": answer, "key": key},
    )


def kinds(accountant):
    return [entry.kind for entry in accountant.entries()]


class TestPrice:
    def test_a_map_within_the_plan_passes(self):
        check_price(measurement(len), 1, Budget.of("0.06", "2e-7"))

    def test_a_map_of_exactly_the_plan_passes(self):
        exactly = Budget.of(Fraction(0.05), Fraction(1e-7))
        check_price(measurement(len), 1, exactly)

    @pytest.mark.parametrize(
        "planned",
        [
            Budget.of(Fraction(0.05) - Fraction(1, 2**70), "1e-6"),
            Budget.of("0.1", Fraction(1e-7) - Fraction(1, 2**90)),
        ],
        ids=["epsilon", "delta"],
    )
    def test_a_map_a_hair_above_the_plan_is_stopped(self, planned):
        with pytest.raises(PriceMismatch, match="privacy map must be at most its charge"):
            check_price(measurement(len), 1, planned)

    def test_the_float_of_a_tenth_is_more_than_a_tenth(self):
        with pytest.raises(PriceMismatch, match=r"got epsilon 0\.1 and delta 1e-07"):
            check_price(measurement(len, epsilon=0.1), 1, Budget.of("0.1", "1e-6"))

    def test_the_price_is_that_of_the_unit(self):
        check_price(measurement(len), 1, Budget.of("0.1", "1e-6"))
        with pytest.raises(PriceMismatch, match=r"got epsilon 0\.15000000000000002"):
            check_price(measurement(len), 3, Budget.of("0.1", "1e-6"))


class TestRelease:
    def test_it_is_charged_started_measured_and_stored(self, accountant):
        assert pay(accountant, lambda table: len(table)) == {"answer": 5, "key": "first"}
        assert kinds(accountant) == ["grant", "table", "charge", "started", "release"]
        assert accountant.spent() == CHARGE.budget

    def test_it_is_charged_and_started_before_the_data_is_touched(self, accountant):
        seen = []
        pay(accountant, lambda table: seen.extend(kinds(accountant)) or 0)
        assert seen == ["grant", "table", "charge", "started"]

    def test_a_stored_release_is_handed_back_without_touching_the_data(self, accountant):
        pay(accountant, lambda table: 1)
        again = pay(accountant, lambda table: 2)
        assert isinstance(again, StoredRelease)
        assert again.release == {"answer": 1, "key": "first"}
        assert accountant.spent() == CHARGE.budget

    def test_fresh_is_stored_under_a_key_of_its_own(self, accountant):
        pay(accountant, lambda table: 1)
        again = pay(accountant, lambda table: 2, fresh=True)
        assert again["answer"] == 2
        assert again["key"] != "first"
        assert accountant.spent() == CHARGE.budget + CHARGE.budget


def failing(table):
    raise RuntimeError(f"the first cell is {table[0, 0]}")


class TestFailure:
    def test_an_error_inside_leaves_without_private_text_or_chained_context(self):
        with pytest.raises(ReleaseFailed) as caught:
            measure(measurement(failing), np.full((5, 1), 31337.25), "first")
        error = caught.value
        assert "31337" not in str(error)
        assert (error.__cause__, error.__context__) == (None, None)
        assert str(error) == (
            "the measurement stopped (OpenDPException); its charge under key first stays. "
            "Run again to pay for a new one."
        )

    def test_its_charge_stays_and_the_ledger_verifies(self, accountant):
        with pytest.raises(ReleaseFailed, match="its charge under key first stays"):
            pay(accountant, failing)
        assert kinds(accountant) == ["grant", "table", "charge", "started"]
        assert accountant.spent() == CHARGE.budget
        assert verify(accountant.ledger.entries()) == []

    def test_another_release_can_be_paid_for_after_it(self, accountant):
        with pytest.raises(ReleaseFailed, match="stays"):
            pay(accountant, failing)
        assert pay(accountant, lambda table: 7)["answer"] == 7
        assert accountant.spent() == CHARGE.budget + CHARGE.budget

    def test_a_table_of_another_shape_fails_without_its_values(self):
        with pytest.raises(ReleaseFailed) as caught:
            measure(
                measurement(lambda table: check_shape(table, 5, 1)),
                np.full((4, 2), 31337.25),
                "first",
            )
        assert "31337" not in str(caught.value)


class TestInterrupts:
    def test_an_interrupt_waits_until_the_block_ends(self, caught):
        with interrupts_deferred():
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            assert caught == []
        assert caught == [signal.SIGINT]

    def test_no_interrupt_calls_nothing(self, caught):
        with interrupts_deferred():
            pass
        assert caught == []

    def test_pythons_own_handler_raises_after_the_block(self):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        done = []

        def work():
            with interrupts_deferred():
                signal.raise_signal(signal.SIGINT)
                done.append("the rest of the block")

        try:
            with pytest.raises(KeyboardInterrupt):
                work()
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        finally:
            signal.signal(signal.SIGINT, before)
        assert done == ["the rest of the block"]

    def test_an_ignored_interrupt_stays_ignored(self):
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            with interrupts_deferred():
                signal.raise_signal(signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        finally:
            signal.signal(signal.SIGINT, before)

    def test_an_error_in_the_block_leaves_and_the_handler_comes_back(self, caught):
        with pytest.raises(LookupError), interrupts_deferred():
            raise LookupError
        assert caught == []

    def test_an_interrupt_is_not_lost_when_the_block_fails(self, caught):
        def work():
            with interrupts_deferred():
                signal.raise_signal(signal.SIGINT)
                raise LookupError

        with pytest.raises(LookupError):
            work()
        assert caught == [signal.SIGINT]

    def test_a_worker_thread_leaves_the_handler_alone(self, caught):
        handlers = []

        def work():
            with interrupts_deferred():
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

        assert pay(accountant, interrupted)["answer"] == 3
        assert caught == [signal.SIGINT]
        assert kinds(accountant)[-1] == "release"

    def test_releases_from_several_threads_take_turns(self, accountant):
        inside, most = [], []

        def slow(table):
            inside.append(1)
            most.append(len(inside))
            inside.pop()
            return 1

        def work():
            measure(measurement(slow), np.zeros((5, 1)), "first")

        workers = [threading.Thread(target=work) for _ in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert most == [1] * 8
