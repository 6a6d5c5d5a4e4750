"""The ledger against a model of a dozen lines, whatever is done to it and in whatever order."""

import shutil
import tempfile
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from accountant import (
    Accountant,
    Authorization,
    Budget,
    BudgetExceeded,
    Charge,
    GrantConflict,
    KeyConflict,
    OutOfOrder,
    PrivacyUnit,
    StoredRelease,
    TableMismatch,
    verify,
)

GRANTED = Budget.of("1", "1e-5")
UNIT = PrivacyUnit(rows_per_person=2)
COLUMNS = ("a", "b")
epsilons = st.sampled_from(["0.1", "1/3", "0.5", "1.5", "1e-9"])
deltas = st.sampled_from(["1e-6", "1/300000", "9e-6", "2e-5"])
keys = st.sampled_from(["one", "two"])


@dataclass
class Model:
    """What the ledger should say."""

    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)
    charged: dict[str, list[str]] = field(default_factory=dict)  # key: states of its attempts
    plans: dict[str, str] = field(default_factory=dict)
    table: bool = False
    counts: dict[str, int] = field(default_factory=lambda: {"grant": 1})

    def count(self, kind: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1


class LedgerMachine(RuleBasedStateMachine):
    @initialize()
    def grant(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "ledger.db"
        self.keeper = Accountant.grant(self.path, data_set="d", budget=GRANTED, unit=UNIT)
        self.model = Model()
        self.open: list[tuple[str, int, Authorization]] = []

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)

    @rule()
    def grant_again(self) -> None:
        self.keeper = Accountant.grant(self.path, data_set="d", budget=GRANTED, unit=UNIT)

    @rule()
    def grant_on_other_terms(self) -> None:
        with pytest.raises(GrantConflict):
            Accountant.grant(self.path, data_set="d", budget=Budget.of(2, "1e-5"), unit=UNIT)

    @rule(
        key=keys,
        plan=st.sampled_from(["p", "p", "p", "q"]),
        epsilon=epsilons,
        delta=deltas,
        fresh=st.booleans(),
        rows=st.sampled_from([10, 10, 10, 11]),
    )
    def authorize(
        self, key: str, plan: str, epsilon: str, delta: str, fresh: bool, rows: int
    ) -> None:
        model, asked = self.model, Budget.of(epsilon, delta)
        charge = Charge(release_key=key, plan_hash=plan, unit=UNIT, budget=asked, stages=())
        rows = rows if model.table else 10
        attempts = model.charged.get(key, [])
        fits = (
            model.epsilon + asked.epsilon <= GRANTED.epsilon
            and model.delta + asked.delta <= GRANTED.delta
        )
        error: type[Exception] | None = None
        if rows != 10:
            error = TableMismatch
            model.count("rejection")
        elif model.plans.get(key, plan) != plan:
            error = KeyConflict
        elif "released" in attempts and not fresh:
            found = self.keeper.authorize(charge, rows=rows, columns=COLUMNS)
            newest = max(place for place, state in enumerate(attempts) if state == "released")
            assert isinstance(found, StoredRelease)
            assert found.release == {"attempt": newest}
            return
        elif not fits:
            error = BudgetExceeded
            model.count("refusal")
        if error is not None:
            with pytest.raises(error):
                self.keeper.authorize(charge, rows=rows, columns=COLUMNS, fresh=fresh)
            return
        granted = self.keeper.authorize(charge, rows=rows, columns=COLUMNS, fresh=fresh)
        assert isinstance(granted, Authorization)
        assert granted.repeated == any(state != "released" for state in attempts)
        assert granted.release_key == (key if not attempts else f"{key}#{len(attempts) + 1}")
        if not model.table:
            model.table = True
            model.count("table")
        model.count("charge")
        model.epsilon += asked.epsilon
        model.delta += asked.delta
        model.plans[key] = plan
        model.charged[key] = [*attempts, "charged"]
        self.open.append((key, len(attempts), granted))

    @precondition(lambda self: bool(self.open))
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        key, attempt, granted = data.draw(st.sampled_from(self.open))
        if self.model.charged[key][attempt] == "charged":
            self.keeper.start(granted)
            self.model.charged[key][attempt] = "started"
            self.model.count("started")
        else:
            with pytest.raises(OutOfOrder):
                self.keeper.start(granted)

    @precondition(lambda self: bool(self.open))
    @rule(data=st.data())
    def store(self, data: st.DataObject) -> None:
        key, attempt, granted = data.draw(st.sampled_from(self.open))
        if self.model.charged[key][attempt] == "started":
            self.keeper.store(granted, {"attempt": attempt})
            self.model.charged[key][attempt] = "released"
            self.model.count("release")
        else:
            with pytest.raises(OutOfOrder):
                self.keeper.store(granted, {"attempt": attempt})

    @rule()
    def reject(self) -> None:
        self.keeper.reject("the file holds no rows")
        self.model.count("rejection")

    @rule()
    def reopen(self) -> None:
        self.keeper = Accountant(self.path, data_set="d")

    @invariant()
    def the_ledger_agrees_with_the_model(self) -> None:
        entries = self.keeper.ledger.entries()
        assert verify(entries) == []
        counts: dict[str, int] = {}
        for entry in entries:
            counts[entry.kind] = counts.get(entry.kind, 0) + 1
        assert self.model.counts == counts
        spent = Budget.of(self.model.epsilon, self.model.delta)
        assert spent == self.keeper.spent()
        assert GRANTED - spent == self.keeper.remaining()
        states = [line.state for line in self.keeper.statement().releases]
        assert sorted(chain.from_iterable(self.model.charged.values())) == sorted(states)


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(
    max_examples=15,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
