"""What a budget is good for on a table of public shape: a plan, or what would be enough for one.

The advice is a plan of private directions and of an adaptive scree along them, committed, since all
of its losses are Gaussian and then cost least. What it chooses, it chooses by public numbers alone:

* *k*: the most components whose scales will likely all be found, of which the last has noise below
  half of its variance, and no direction is turned by noise by a sine of a half.
* *weights*: those of a short list that make least the mean sine of the angle by which noise turns a
  direction, plus the mean noise of a variance relative to it.
* *degree*: more pairs where they take little time; they have less variance at the same privacy.

For columns in different units a scree along the axes comes first, with the weight of the other, and
each column is divided by the root of its released variance.

Assumed, since nobody knows the table: Gaussian columns, whose component j has 1/j of the variance
of the first. If no plan is good enough, the advice is the least budget or number of rows that is.

Source: ours. Angles by first-order perturbation (Anderson 1963); the eigenvalues of a spherical
Kendall matrix as integrals, after Visuri, Koivunen and Oja (2000).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from accountant.amounts import show_up
from accountant.facts import Fact
from accountant.specs import Budget, PrivacyUnit
from dppca_odp.budgets import delta_cautions
from dppca_odp.columns import Column
from dppca_odp.directions import Directions, sines_of_noise
from dppca_odp.earlier import AXES
from dppca_odp.eigenvalues.adaptive import Adaptive
from dppca_odp.eigenvalues.method import ScaleOutlook, in_percent
from dppca_odp.eigenvalues.scree import Scree
from dppca_odp.errors import InvalidPlan
from dppca_odp.paper import OnPaper
from dppca_odp.plan import Plan
from dppca_odp.preview import ScreeOutlook
from dppca_odp.values import Floats

#: Weights of directions and scree to choose from; the first finds scales best, the last directions.
WEIGHTS = ((1, 4), (1, 3), (1, 2), (1, 1), (2, 1), (3, 1), (4, 1))
#: The chance to find all scales must be this: more than "likely", for it is an approximation.
ENOUGH = 0.99
#: Noise of the last component's variance, relative to it, must stay below this.
MOST_RELATIVE_NOISE = 0.5
#: And noise must turn no direction by more than this sine.
MOST_SINE = 0.5
MOST_COMPONENTS = 20
DEGREE, HIGH_DEGREE = 16, 32
#: Of rows times columns: up to here the high degree takes a second or so.
SMALL_TABLE = 2_000_000
MOST_ROWS, MOST_EPSILON = 2**26, Fraction(20)


class Advice(OnPaper, Fact):
    """A plan for a budget and a table of public shape, or what would be enough for one."""

    budget: Budget
    unit: PrivacyUnit
    rows: int
    columns: int
    components: int
    """k: advised, or asked for."""
    plan: Plan | None = None
    """None if the table is too small for the budget. Its columns are to be named, if none were."""
    outlook: ScaleOutlook
    """Whether the plan, or the best there is, will find the scales of the scree."""
    noise: tuple[float, ...]
    """To expect of each variance, relative to it."""
    sines: tuple[float, ...]
    """To expect of the angle by which noise turns each direction."""
    least_rows: int | None = None
    """Without a plan: from so many rows on there is one; None if there are never enough."""
    least_epsilon: str | None = None
    """Without a plan: from this epsilon on there is one; None if it is above 20."""
    scaled: bool = False
    """Whether columns are divided by private scales."""

    def sentences(self) -> tuple[str, ...]:
        """The advice in words."""
        told = _proposal(self, self.plan) if self.plan else _refusal(self)
        return (*told, *delta_cautions(self.budget.delta, self.rows, self.unit))

    def __rich__(self) -> RenderableType:
        lines = [Text(sentence) for sentence in self.sentences()]
        return Group(*lines, *([Text(self.plan_json())] if self.plan else []))

    def plan_json(self) -> str:
        """The plan as a file holds it."""
        assert self.plan
        short = {"columns": self.plan.column_names}  # without bounds, a name is a column
        return json.dumps(self.plan.model_dump(mode="json") | short, indent=2)


def advise(
    budget: Budget,
    rows: int,
    columns: int | Sequence[str],
    components: int | None = None,
    unit: PrivacyUnit | None = None,
    *,
    scaled: bool = False,
) -> Advice:
    """A plan for this budget, or what would be enough; of one row a person if no unit is given.

    ``columns`` are those to be measured: their names, or their number. Where they are in different
    units, ``scaled`` divides them by private scales.

    Raises:
        InvalidPlan: a shape that no plan suits.
        InvalidValue, InvalidAmount: a budget that pays for no noise.
    """
    unit = unit or PrivacyUnit(rows_per_person=1)
    if rows < 3:
        raise InvalidPlan(f"rows must be at least 3; got {rows}. A ring of pairs needs them.")
    named = _columns(columns)
    if len(named) < 2:
        raise InvalidPlan(
            f"columns must be at least 2; got {len(named)}. Plan a scree along the direction [[1]]."
        )
    if components is not None and not 1 <= components <= len(named):
        raise InvalidPlan(
            f"components must be between 1 and the number of columns, {len(named)}; got "
            f"{components}. Use fewer."
        )
    task = _Task(budget, unit, rows, named, scaled)
    if components is None:
        components = task.most_components()
    components = components or 1
    candidates = [task.candidate(components, weights) for weights in WEIGHTS]
    if enough := [candidate for candidate in candidates if candidate.is_enough]:
        chosen = min(enough, key=lambda candidate: candidate.objective)
        return task.advice(chosen, components, plan=chosen.plan)
    return task.advice(
        candidates[0],
        components,
        least_rows=task.least_rows(components),
        least_epsilon=task.least_epsilon(components),
    )


def _columns(given: int | Sequence[str]) -> tuple[Column, ...]:
    """The columns of these names, or so many."""
    if isinstance(given, str):
        raise InvalidPlan(f"columns must be a number or a list of names; got {given!r}. List it.")
    if isinstance(given, int | np.integer):
        given = [f"column {number}" for number in range(1, int(given) + 1)]
    return tuple(Column(name=name) for name in given)


class _Candidate(NamedTuple):
    """A plan and what to expect of it."""

    plan: Plan
    outlook: ScaleOutlook
    noise: Floats
    sines: Floats

    @property
    def is_enough(self) -> bool:
        """Whether the advice may be this plan."""
        return bool(
            self.is_clear and self.outlook.chance >= ENOUGH and self.noise[-1] < MOST_RELATIVE_NOISE
        )

    @property
    def is_clear(self) -> bool:
        """Whether noise turns no direction far."""
        return bool(self.sines.max() < MOST_SINE)

    @property
    def objective(self) -> float:
        """Mean sine of directions plus mean relative noise of variances."""
        return float(self.sines.mean() + self.noise.mean())


class _Task(NamedTuple):
    """What is asked: public numbers."""

    budget: Budget
    unit: PrivacyUnit
    rows: int
    columns: tuple[Column, ...]
    scaled: bool

    def candidate(self, components: int, weights: tuple[int, int]) -> _Candidate:
        """The plan with these weights, and what to expect of it."""
        degree = HIGH_DEGREE if self.rows * len(self.columns) <= SMALL_TABLE else DEGREE
        for_directions, for_scree = map(Fraction, weights)
        method = Adaptive(degree=degree)
        variances = Scree(name="variances", directions=AXES, method=method, weight=for_scree)
        directions = Directions(
            name="directions",
            components=components,
            degree=degree,
            scales=variances.name if self.scaled else None,
            weight=for_directions,
        )
        scree = Scree(name="scree", directions=directions.name, method=method, weight=for_scree)
        plan = Plan(
            budget=self.budget,
            unit=self.unit,
            columns=self.columns,
            releases=(*[variances] * self.scaled, directions, scree),
            composition="committed",
        )
        factor = plan.factor(self.rows)
        shares = plan.shares(factor)
        guess = guessed_spectrum(len(self.columns))
        screes = [
            ScreeOutlook.of(
                asked,
                shares[asked.name],
                plan.setting(asked, self.rows),
                guess[: plan.components(asked)].tolist(),
            )
            for asked in plan.releases
            if isinstance(asked, Scree)
        ]
        *_, matrix, _ = plan.stages_at(self.rows, factor)
        assert matrix.noise_scale is not None
        return _Candidate(
            plan=plan,
            outlook=min(
                (told.outlook for told in screes if told.outlook),
                key=lambda outlook: outlook.chance,
            ),
            noise=np.array(screes[-1].noise_scales) / guess[:components],
            sines=expected_sines(guess, matrix.noise_scale)[:components],
        )

    def has_plan(self, components: int) -> bool:
        """Whether a plan is good enough.

        What weight of the directions suffices for them is sought by halving: if the scree has then
        too little, no other weight is enough for both.
        """
        low, high = 0, len(WEIGHTS) - 1
        try:
            while low < high:
                middle = (low + high) // 2
                if self.candidate(components, WEIGHTS[middle]).is_clear:
                    high = middle
                else:
                    low = middle + 1
            return self.candidate(components, WEIGHTS[low]).is_enough
        except InvalidPlan:  # an epsilon so large that floating point cannot compose it
            return False

    def most_components(self) -> int:
        """The most that some plan is good enough for; 0 if none is for one."""
        most = min(len(self.columns), MOST_COMPONENTS)
        for components in range(1, most + 1):
            if not self.has_plan(components):
                return components - 1
        return most

    def least_rows(self, components: int) -> int | None:
        """The least number of rows at which there is a plan."""

        def is_enough(rows: int) -> bool:
            return self._replace(rows=rows).has_plan(components)

        return _least(is_enough, self.rows, MOST_ROWS)

    def least_epsilon(self, components: int) -> str | None:
        """The least epsilon, in thousandths of that asked, at which there is a plan."""
        step = self.budget.epsilon / 1000

        def is_enough(steps: int) -> bool:
            budget = Budget.of(show_up(steps * step), self.budget.delta)
            return self._replace(budget=budget).has_plan(components)

        found = _least(is_enough, 1000, int(MOST_EPSILON / step))
        return None if found is None else show_up(found * step)

    def advice(self, best: _Candidate, components: int, **more: Any) -> Advice:
        """What to say of the best candidate."""
        return Advice(
            budget=self.budget,
            unit=self.unit,
            rows=self.rows,
            columns=len(self.columns),
            components=components,
            scaled=self.scaled,
            outlook=best.outlook,
            noise=tuple(best.noise),
            sines=tuple(best.sines),
            **more,
        )


def _least(is_enough: Callable[[int], bool], low: int, most: int) -> int | None:
    """The least number that is enough, of those above one that is not."""
    high = min(2 * low, most)
    while not is_enough(high):
        if high == most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


# --- what is assumed ---------------------------------------------------------------------------


def guessed_spectrum(columns: int) -> Floats:
    """The variance along each component, where nobody knows: 1, 1/2, 1/3, ..."""
    return 1 / np.arange(1.0, columns + 1)


def kendall_eigenvalues(variances: Floats) -> Floats:
    """Eigenvalues of the spherical Kendall matrix of Gaussian rows with these variances.

    With z normal, E [v_j z_j^2 / sum_i v_i z_i^2] is the integral over s > 0 of
    v_j / (1 + 2 v_j s) prod_i (1 + 2 v_i s)^(-1/2).
    """
    logarithms = np.linspace(-40, 40, 4001) - np.log(variances.max())
    s = np.exp(logarithms)
    factors = np.log1p(2 * variances[:, np.newaxis] * s)
    density = np.exp(logarithms - 0.5 * factors.sum(axis=0) - factors)
    integrals: Floats = np.trapezoid(variances[:, np.newaxis] * density, logarithms, axis=1)
    return integrals


def expected_sines(variances: Floats, noise: float) -> Floats:
    """Of the angles by which noise turns directions of Gaussian columns with these variances."""
    return sines_of_noise(kendall_eigenvalues(variances), noise)


# --- words -------------------------------------------------------------------------------------


def _proposal(advice: Advice, plan: Plan) -> Iterator[str]:
    *_, directions, scree = plan.releases
    k, chance = _components(advice.components), in_percent(advice.outlook.chance)
    yield f"A plan for {advice.budget.show_up()} on {_shape(advice)}:"
    yield (
        f"- {k}: directions with weight {directions.weight}, then variances along them by the "
        f"adaptive method with weight {scree.weight}; it needs no constant from you."
    )
    yield (
        "- committed: all stages are Gaussian, and composed together each release gets "
        f"{float(plan.factor(advice.rows)):.3g} times the epsilon of its weight."
    )
    yield f"- likely to find all scales (chance {chance}): {advice.outlook.reason}."
    yield f"- noise of a variance, relative to it: {_range(advice.noise)}."
    yield f"- sine of the angle by which noise turns a direction: {_range(advice.sines)}."
    yield ASSUMED
    yield SCALED if advice.scaled else UNITS


def _refusal(advice: Advice) -> Iterator[str]:
    k, chance = _components(advice.components), in_percent(advice.outlook.chance)
    yield (
        f"No plan: {_shape(advice)} are too few for {advice.budget.show_up()} and {k}. What "
        "it released could be noise."
    )
    yield (
        f"- chance to find all scales: {chance}, where {ENOUGH:.0%} is asked for; "
        f"{advice.outlook.reason}."
    )
    yield (
        f"- noise of a variance, relative to it: {_range(advice.noise)}; at most "
        f"{MOST_RELATIVE_NOISE}."
    )
    yield (
        f"- sine of the angle by which noise turns a direction: {_range(advice.sines)}; at most "
        f"{MOST_SINE}."
    )
    if advice.least_epsilon:
        yield f"- epsilon {advice.least_epsilon} would do for these rows."
    if advice.least_rows:
        yield f"- {advice.least_rows} rows would do for this budget."
    yield ASSUMED


UNITS = (
    "Columns in different units: declare a public scale for each, or ask for a scaled plan, which "
    "divides them by private ones; else directions follow the largest numbers."
)
SCALED = (
    "Scaled: the variances of columns come first, with the weight of the others, and columns are "
    "divided by their roots. Declare public bounds of columns that are skewed or mostly zeros: "
    "else they cost the others noise."
)
ASSUMED = (
    "Assumed, not seen: Gaussian columns, whose component j has 1/j of the variance of the first. "
    "Heavier tails have more noise."
)


def _components(number: int) -> str:
    return f"{number} component{'s' if number > 1 else ''}"


def _shape(advice: Advice) -> str:
    return f"{advice.rows} rows by {advice.columns} columns, protecting {advice.unit}"


def _range(errors: Sequence[float]) -> str:
    first, last = f"{errors[0]:.2g}", f"{errors[-1]:.2g}"
    return first if first == last else f"from {first} of the first to {last} of the last"
