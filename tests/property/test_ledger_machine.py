"""The ledger against a small model, whatever is done to it and in whatever order."""

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import reduce
from operator import add, le, sub
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from accountant import (
    Accountant,
    ApproximateLoss,
    Authorization,
    Budget,
    BudgetExceeded,
    Charge,
    GaussianLoss,
    GrantConflict,
    KeyConflict,
    OutOfOrder,
    PrivacyUnit,
    Stage,
    StoredRelease,
    TableMismatch,
    verify,
)
from accountant.amounts import in_short
from accountant.balances import Pool
from accountant.entries import Rejection
from accountant.rules import GaussianRule
from accountant.specs import AnyBudget, GaussianBudget

from ..postgresql import PostgresqlServer

UNIT = PrivacyUnit(rows_per_person=2)
FIRST = Budget.of("1", "1e-5")
COLUMNS = ("a", "b")
epsilons = st.sampled_from(["0.1", "1/3", "0.5", "1.5", "1e-9"])
deltas = st.sampled_from(["1e-6", "1/300000", "9e-6", "2e-5"])
keys = st.sampled_from(["one", "two"])
pools = st.sampled_from([None, None, "ana", "bob"])

Amounts = tuple[Fraction, ...]
NOTHING: Amounts = (Fraction(0),) * 3


def amounts(budget: AnyBudget) -> Amounts:
    """Its three amounts, of which a sum has only two."""
    return (*budget.coordinates, Fraction(0))[:3]


def plus(first: Amounts, second: Amounts) -> Amounts:
    return tuple(map(add, first, second))


def minus(first: Amounts, second: Amounts) -> Amounts:
    return tuple(map(sub, first, second))


def fits(asked: Amounts, room: Amounts) -> bool:
    return all(map(le, asked, room))


class Sums:
    """Charges under the rule sum: what is asked is what is counted."""

    def terms(self) -> dict[str, Any]:
        return {}

    def capacity(self, promise: Budget) -> Amounts:
        return amounts(promise)

    def part(self, epsilon: str, delta: str) -> tuple[AnyBudget, Amounts]:
        """What to ask for, and what will stand."""
        budget = Budget.of(epsilon, delta)
        return budget, amounts(budget)

    def stages(self, budget: Budget) -> tuple[tuple[Stage, ...], Amounts]:
        """The stages of a charge, and what it costs."""
        return (), amounts(budget)


class Squares:
    """The rule gaussian: mu is a fifth of epsilon, a 20th of delta falls to what is aside, and a
    ten millionth to the leak."""

    def __init__(self) -> None:
        self.set_aside = Fraction(1, 10**6)
        self.rule = GaussianRule(budget=FIRST, set_aside=self.set_aside)

    def terms(self) -> dict[str, Any]:
        return {"rule": "gaussian", "set_aside": self.set_aside}

    def capacity(self, promise: Budget) -> Amounts:
        return self.rule.capacity(promise).coordinates

    def part(self, epsilon: str, delta: str) -> tuple[AnyBudget, Amounts]:
        square, aside = (Fraction(epsilon) / 5) ** 2, Fraction(delta) / 20
        whole, _, kept = self.capacity(FIRST)
        leak = kept * min(square / whole, Fraction(1))
        stands = in_short(square, up=True), in_short(aside, up=False), in_short(leak, up=False)
        return GaussianBudget.of(square, aside), stands

    def stages(self, budget: Budget) -> tuple[tuple[Stage, ...], Amounts]:
        mu, aside, leak = budget.epsilon / 5, budget.delta / 20, budget.delta / 10**7
        losses = GaussianLoss(mu=mu, leak=leak), ApproximateLoss(epsilon=Fraction(0), delta=aside)
        stage = Stage(name="mean", budget=budget, losses=losses)
        return (stage,), tuple(in_short(amount, up=True) for amount in (mu**2, aside, leak))


@dataclass
class Attempt:
    pool: str | None
    cost: Amounts
    state: str = "charged"


@dataclass
class Model:
    """What the ledger should say."""

    promise: Budget
    granted: dict[str | None, Amounts]
    spent: dict[str | None, Amounts] = field(default_factory=lambda: {None: NOTHING})
    attempts: dict[str, list[Attempt]] = field(default_factory=dict)
    plans: dict[str, str] = field(default_factory=dict)
    table: bool = False
    counts: dict[str, int] = field(default_factory=lambda: {"grant": 1})

    def count(self, kind: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def room(self, pool: str | None) -> Amounts:
        return minus(self.granted[pool], self.spent[pool])

    def whole(self) -> Amounts:
        return reduce(plus, self.granted.values(), NOTHING)


class LedgerMachine(RuleBasedStateMachine):
    def __init__(self, address: str, counting: Sums | Squares) -> None:
        super().__init__()
        self.address, self.counting = address, counting
        self.keeper = self.grant_now(FIRST)
        self.model = Model(promise=FIRST, granted={None: counting.capacity(FIRST)})
        self.open: list[tuple[str, int, Authorization]] = []

    def grant_now(self, budget: Budget, reason: str | None = None) -> Accountant:
        return Accountant.grant(
            self.address,
            data_set="d",
            budget=budget,
            unit=UNIT,
            reason=reason,
            **self.counting.terms(),
        )

    @initialize(begun=st.booleans())
    def begin(self, begun: bool) -> None:
        """Half of the runs begin with an allocation in use, which chance alone seldom makes."""
        if begun:
            self.allocate("ana", "0.5", "9e-6", None)
            self.charge("ana", "one", "p", "0.1", "1e-6", fresh=False, rows=10)

    def draws_on(self, pool: str | None) -> Accountant:
        return Accountant(self.keeper.ledger, data_set="d", allocation=pool)

    @rule(
        epsilon=st.sampled_from(["1", "1.5", "2"]),
        delta=st.sampled_from(["1e-5", "2e-5"]),
        reason=st.sampled_from([None, "more"]),
    )
    def grant(self, epsilon: str, delta: str, reason: str | None) -> None:
        model, budget = self.model, Budget.of(epsilon, delta)
        asked, whole = self.counting.capacity(budget), model.whole()
        if budget == model.promise or (reason is None and budget == FIRST):
            self.grant_now(budget, reason)
        elif reason and model.promise.fits_within(budget) and fits(whole, asked):
            self.grant_now(budget, reason)
            model.promise = budget
            model.granted[None] = plus(model.granted[None], minus(asked, whole))
            model.count("raise")
        else:
            with pytest.raises(GrantConflict):
                self.grant_now(budget, reason)

    @rule(
        name=st.sampled_from(["ana", "bob"]),
        epsilon=epsilons,
        delta=deltas,
        reason=st.sampled_from([None, "more"]),
    )
    def allocate(self, name: str, epsilon: str, delta: str, reason: str | None) -> None:
        model = self.model
        budget, asked = self.counting.part(epsilon, delta)
        standing = model.granted.get(name)
        if standing == asked:
            self.keeper.allocate(name, budget, reason=reason)
            return
        error: type[Exception] | None = None
        if standing is not None and (reason is None or not fits(standing, asked)):
            error = GrantConflict
        elif not fits(minus(asked, standing or NOTHING), model.room(None)):
            error = BudgetExceeded
        if error is not None:
            with pytest.raises(error):
                self.keeper.allocate(name, budget, reason=reason)
            return
        self.keeper.allocate(name, budget, reason=reason)
        model.granted[None] = minus(model.granted[None], minus(asked, standing or NOTHING))
        model.granted[name] = asked
        model.spent.setdefault(name, NOTHING)
        model.count("allocation" if standing is None else "raise")

    @rule(
        pool=pools,
        key=keys,
        plan=st.sampled_from(["p", "p", "p", "q"]),
        epsilon=epsilons,
        delta=deltas,
        fresh=st.booleans(),
        rows=st.sampled_from([10, 10, 10, 11]),
    )
    def charge(
        self,
        pool: str | None,
        key: str,
        plan: str,
        epsilon: str,
        delta: str,
        fresh: bool,
        rows: int,
    ) -> None:
        model, budget = self.model, Budget.of(epsilon, delta)
        stages, cost = self.counting.stages(budget)
        if pool not in model.granted:
            pool = None
        keeper = self.draws_on(pool)
        charge = Charge(release_key=key, plan_hash=plan, unit=UNIT, budget=budget, stages=stages)
        rows = rows if model.table else 10
        attempts = model.attempts.get(key, [])
        released = [place for place, one in enumerate(attempts) if one.state == "released"]
        error: type[Exception] | None = None
        if rows != 10:
            error = TableMismatch
            model.count("rejection")
        elif model.plans.get(key, plan) != plan:
            error = KeyConflict
        elif released and not fresh:
            found = keeper.authorize(charge, rows=rows, columns=COLUMNS)
            assert isinstance(found, StoredRelease)
            assert found.release == {"attempt": self.newest[key]}
            return
        elif not fits(cost, model.room(pool)):
            error = BudgetExceeded
            model.count("refusal")
        if error is not None:
            with pytest.raises(error):
                keeper.authorize(charge, rows=rows, columns=COLUMNS, fresh=fresh)
            return
        granted = keeper.authorize(charge, rows=rows, columns=COLUMNS, fresh=fresh)
        assert isinstance(granted, Authorization)
        assert granted.release_key == (key if not attempts else f"{key}#{len(attempts) + 1}")
        if not model.table:
            model.table = True
            model.count("table")
        model.count("charge")
        model.spent[pool] = plus(model.spent[pool], cost)
        model.plans[key] = plan
        model.attempts[key] = [*attempts, Attempt(pool, cost)]
        self.open.append((key, len(attempts), granted))

    @property
    def newest(self) -> dict[str, int]:
        """The attempt whose release was stored last, by key."""
        return self.__dict__.setdefault("_newest", {})

    @precondition(lambda self: bool(self.open))
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        key, place, granted = data.draw(st.sampled_from(self.open))
        self.step(key, place, "charged", "started", lambda: self.keeper.start(granted))

    @precondition(lambda self: bool(self.open))
    @rule(data=st.data())
    def store(self, data: st.DataObject) -> None:
        key, place, granted = data.draw(st.sampled_from(self.open))
        document = {"attempt": place}
        if self.step(
            key, place, "started", "released", lambda: self.keeper.store(granted, document)
        ):
            self.newest[key] = place

    @precondition(lambda self: bool(self.model.attempts))
    @rule(data=st.data())
    def void(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.model.attempts)))
        place = data.draw(st.integers(0, len(self.model.attempts[key]) - 1))
        charged = key if place == 0 else f"{key}#{place + 1}"
        attempt = self.model.attempts[key][place]
        if self.step(
            key, place, "charged", "voided", lambda: self.keeper.void(charged, "never ran")
        ):
            self.model.spent[attempt.pool] = minus(self.model.spent[attempt.pool], attempt.cost)

    def step(
        self, key: str, place: int, before: str, after: str, act: Callable[[], object]
    ) -> bool:
        """Do it if the attempt is in the right state, and see it refused if not."""
        attempt = self.model.attempts[key][place]
        if attempt.state != before:
            with pytest.raises(OutOfOrder):
                act()
            return False
        act()
        attempt.state = after
        kinds = {"started": "started", "released": "release", "voided": "void"}
        self.model.count(kinds[after])
        return True

    @rule()
    def crash(self) -> None:
        """Die within a transaction, and lose every authorization that was in memory."""

        def die() -> None:
            with self.keeper.ledger.transaction() as transaction:
                for _ in range(3):
                    transaction.append("d", "rejection", Rejection(reason="lost", actor=""))
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            die()
        self.open.clear()
        self.reopen()

    @rule()
    def reject(self) -> None:
        self.keeper.reject("the file holds no rows")
        self.model.count("rejection")

    @rule()
    def reopen(self) -> None:
        self.keeper = Accountant(self.address, data_set="d")

    @invariant()
    def the_ledger_agrees_with_the_model(self) -> None:
        model, entries = self.model, self.keeper.ledger.entries()
        assert verify(entries) == []
        counts: dict[str, int] = {}
        for entry in entries:
            counts[entry.kind] = counts.get(entry.kind, 0) + 1
        assert model.counts == counts
        statement = self.keeper.statement()
        stated: dict[str | None, Any] = {line.name: line for line in statement.allocations}
        stated[None] = statement.free
        assert model.granted == {name: amounts(pool.granted) for name, pool in stated.items()}
        assert model.spent == {name: amounts(pool.spent) for name, pool in stated.items()}
        for name in model.granted:
            pool = self.draws_on(name).pool()
            assert pool == Pool(granted=stated[name].granted, spent=stated[name].spent)
        assert amounts(statement.granted) == model.whole()
        assert amounts(statement.spent) == reduce(plus, model.spent.values(), NOTHING)
        assert statement.budget == model.promise
        assert statement.granted == statement.spent + statement.remaining
        states = [one.state for attempts in model.attempts.values() for one in attempts]
        assert sorted(states) == sorted(line.state for line in statement.charges)


def limits(examples: int, steps: int) -> settings:
    return settings(
        max_examples=examples,
        stateful_step_count=steps,
        suppress_health_check=list(HealthCheck),
    )


@pytest.mark.parametrize(("counting", "examples"), [(Sums, 20), (Squares, 10)])
def test_on_sqlite(
    tmp_path_factory: pytest.TempPathFactory,
    counting: type[Sums] | type[Squares],
    examples: int,
) -> None:
    def machine() -> LedgerMachine:
        folder: Path = tmp_path_factory.mktemp("machine")
        return LedgerMachine(str(folder / "ledger.db"), counting())

    run_state_machine_as_test(machine, settings=limits(examples, 25))


@pytest.mark.parametrize(("counting", "examples"), [(Sums, 6), (Squares, 3)])
def test_on_postgresql(
    postgresql_server: PostgresqlServer, counting: type[Sums] | type[Squares], examples: int
) -> None:
    class Fresh(LedgerMachine):
        def __init__(self) -> None:
            self.database = postgresql_server.fresh_database()
            super().__init__(self.database.__enter__(), counting())

        def teardown(self) -> None:
            self.database.__exit__(None, None, None)

    run_state_machine_as_test(Fresh, settings=limits(examples, 25))
