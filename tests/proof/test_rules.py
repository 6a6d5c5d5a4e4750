"""The three rules against games that are enumerated exactly.

The next mechanism, its parameters and its lattice are picked after the answers before. By `sum`
and `gaussian` so are the losses, within what remains by the rule's own cost and capacity. No game
tells more than its rule promises, at any epsilon; some come near; and the same games break a
promise that is a twentieth smaller.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, partial
from math import exp, log
from random import Random

import numpy as np
import pytest
from scipy.special import ndtr

from accountant.amounts import float_below, in_short, root_below
from accountant.gaussian import gaussian_delta, gaussian_mu
from accountant.laws import Law
from accountant.losses import ApproximateLoss, GaussianLoss, Loss, PureLoss
from accountant.rules import CommittedRule, GaussianRule, SumRule
from accountant.specs import AnyBudget, Budget, GaussianBudget, Stage

from .exact_laws import FLOATS
from .games import (
    History,
    Mechanism,
    best_test,
    joint_laws,
    lattice,
    leaking,
    total_variation,
    true_delta,
    truth,
    undecided_vote,
    vote,
)

Pick = Callable[[History], Mechanism | None]
"""What comes next after these answers; None: nothing."""
PickWithin = Callable[..., Mechanism | None]
"""The same, of what is left of the grant and the answers."""

GRANT = Budget.of("1", "1e-3")
SMALLER = Fraction(19, 20)
TURNS = 4
CURVE = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.1, 1.3, 1.6, 2.0, 3.0)
ALL, HALF = Fraction(1), Fraction(1, 2)


@dataclass(frozen=True)
class Game:
    """What it tells, and which delta was promised at which epsilons; also if that were smaller."""

    laws: tuple[np.ndarray, np.ndarray]
    epsilons: tuple[float, ...]
    promise: Callable[[float], float]
    smaller: Callable[[float], float]

    def told(self, epsilon: float) -> float:
        return true_delta(self.laws, epsilon)


def draws(seed: str, history: History) -> Random:
    """Chance that depends on all answers."""
    return Random(f"{seed} {history.answers}")


def stage(loss: Loss) -> Stage:
    """With this loss alone."""
    match loss:
        case PureLoss():
            budget = Budget.of(loss.epsilon, 0)
        case ApproximateLoss():
            budget = Budget.of(loss.epsilon, loss.delta)
        case GaussianLoss():
            budget = GAUSSIAN
    return Stage(name="one", budget=budget, losses=(loss,))


GAUSSIAN = Budget.of("1/5", "1e-4")
"""What a Gaussian states for the rule `sum`, at this mu."""
GAUSSIAN_MU = Fraction(gaussian_mu(GAUSSIAN.epsilon, GAUSSIAN.delta))


def within(rule: SumRule | GaussianRule, pick: PickWithin) -> Pick:
    """Picks of what is left of the grant, each of which must fit in that."""

    capacity = rule.capacity(GRANT)

    @cache
    def left_after(losses: tuple[Loss, ...]) -> AnyBudget:
        return capacity - rule.cost([stage(loss) for loss in losses])

    @cache
    def fits(loss: Loss, left: AnyBudget) -> bool:
        return rule.cost([stage(loss)]).fits_within(left)

    def fitting(history: History) -> Mechanism | None:
        left = left_after(history.losses)
        mechanism = pick(left, history)
        assert mechanism is None or fits(mechanism.loss, left)
        return mechanism

    return fitting


# The rule `sum`: a mechanism for a part of what is left.


def votes_and_truths(left: Budget, history: History) -> Mechanism:
    """Larger ones after answers in favour; in the end all that is left."""
    chance = draws("votes", history)
    part = HALF if history.first > history.second else Fraction(1, chance.choice([3, 4]))
    if len(history.answers) == TURNS - 1:
        return truth(left.epsilon, left.delta)
    if chance.random() < 0.5:
        return vote(left.epsilon * part)
    return truth(left.epsilon * part, left.delta * part)


def gaussians_too(left: Budget, history: History) -> Mechanism:
    """The same, and Gaussians while they fit."""
    chance = draws("Gaussians", history)
    if chance.random() < 0.5 and GAUSSIAN.fits_within(left):
        return lattice(GAUSSIAN_MU, offset=chance.random())
    return votes_and_truths(left, history)


def sum_game(pick: PickWithin) -> Game:
    epsilon, delta = float(GRANT.epsilon), float(GRANT.delta)
    less = epsilon * float(SMALLER)
    return Game(
        laws=joint_laws(within(SumRule(), pick), TURNS),
        epsilons=(less, epsilon, 1.1 * epsilon, 2 * epsilon),
        promise=lambda at: delta if at >= epsilon else 1.0,
        smaller=lambda at: delta if at >= less else 1.0,
    )


# The rule `committed`: the losses are fixed, the rest depends on the answers.

DECLARED: tuple[Loss, ...] = (
    PureLoss(epsilon=Fraction(1, 5)),
    GaussianLoss(mu=Fraction(1, 4)),
    ApproximateLoss(epsilon=Fraction(1, 10), delta=Fraction(1, 5000)),
    GaussianLoss(mu=Fraction(3, 10)),
    GaussianLoss(mu=Fraction(1, 5)),
)


def smaller_loss(loss: Loss) -> Loss:
    name = "mu" if isinstance(loss, GaussianLoss) else "epsilon"
    return loss.model_copy(update={name: getattr(loss, name) * SMALLER})


COMMITTED = CommittedRule(delta=GRANT.delta)
EPSILON, TOO_SMALL = (
    float(COMMITTED.cost([stage(loss) for loss in losses]).epsilon)
    for losses in (DECLARED, map(smaller_loss, DECLARED))
)


def as_declared(history: History) -> Mechanism:
    """Another lattice after other answers."""
    match DECLARED[len(history.answers)]:
        case PureLoss(epsilon=epsilon):
            return vote(epsilon)
        case ApproximateLoss(epsilon=epsilon, delta=delta):
            return truth(epsilon, delta)
        case GaussianLoss(mu=mu):
            return lattice(mu, offset=draws("declared", history).random())


def less_than_declared(history: History) -> Mechanism:
    """Also another kind of vote, other lattices, and less than was declared."""
    chance = draws("less", history)
    part = Fraction(chance.choice([2, 3, 4]), 4)
    match DECLARED[len(history.answers)]:
        case PureLoss(epsilon=epsilon):
            return undecided_vote(epsilon * part)
        case ApproximateLoss(epsilon=epsilon, delta=delta):
            return truth(epsilon * part, delta * part)
        case GaussianLoss(mu=mu):
            width = chance.choice([0.5, 0.625])
            return lattice(mu * part, offset=chance.random(), width=width)


def committed_game(pick: Pick) -> Game:
    delta, law = float(COMMITTED.delta), Law.of(DECLARED, negligible=1e-15)
    return Game(
        laws=joint_laws(pick, len(DECLARED)),
        epsilons=(TOO_SMALL, EPSILON, *CURVE),
        promise=lambda at: delta if at == EPSILON else law.delta(at),
        smaller=lambda at: delta if at >= TOO_SMALL else 1.0,
    )


# The rule `gaussian`: parts of what is left.

GAUSSIAN_RULE = GaussianRule(budget=GRANT, set_aside=Fraction(2, 5000))


class LeakyRule(GaussianRule):
    """The same, with a fifth of delta kept for rounding, so that leaks are seen in a game."""

    @property
    def leak(self) -> Fraction:
        return in_short(self.budget.delta / 5 / ODDS, up=False)


ODDS = 1 + Fraction(exp(GRANT.epsilon)) * (1 + Fraction(1, 2**50))
LEAKY_RULE = LeakyRule(budget=GRANT, set_aside=GAUSSIAN_RULE.set_aside)


def mu_of(left: GaussianBudget, part: Fraction = ALL) -> Fraction:
    """For this part of mu squared."""
    return Fraction(float_below(root_below(left.mu_squared * part)))


def leak_of(left: GaussianBudget, part: Fraction = ALL) -> Fraction:
    """This part of it, in so few digits that no cost is rounded up."""
    return in_short(left.leak * part, up=False)


def vote_of(left: GaussianBudget, part: Fraction = ALL) -> Mechanism:
    """The vote whose kink lies on the trade-off function of that mu."""
    mu = float(mu_of(left, part))
    return vote(Fraction(log(ndtr(mu / 2) / ndtr(-mu / 2)) * (1 - 1e-12)))


def by_likelihood(left: GaussianBudget, history: History) -> Mechanism:
    """A Gaussian; one more if it was in favour, else a vote or a truth; then all that is left."""
    match history.answers:
        case ():
            return lattice(mu_of(left, HALF))
        case (first,) if history.first > history.second:
            return lattice(mu_of(left, HALF), offset=first / 7 % 1)
        case (first,):
            small = Fraction(1, 20)
            return vote_of(left, small) if first % 2 else truth(Fraction(1, 100), left.delta / 2)
        case (_, _):
            return truth(Fraction(0), left.delta)
        case (first, *_):
            return lattice(mu_of(left), offset=first / 7 % 1)


def one_vote(left: GaussianBudget, history: History) -> Mechanism | None:
    """All that is set aside for a truth, then all of mu squared for a vote."""
    match history.answers:
        case ():
            return truth(Fraction(0), left.delta)
        case (_,):
            return largest_vote(left)
        case _:
            return None


def largest_vote(left: GaussianBudget) -> Mechanism:
    """The largest whose cost, by the rule, is left."""
    low, high = 0.0, 3.0
    for _ in range(50):
        middle = (low + high) / 2
        fits = GAUSSIAN_RULE.cost([stage(PureLoss(epsilon=Fraction(middle)))]).fits_within(left)
        low, high = (middle, high) if fits else (low, middle)
    return vote(Fraction(low))


def leaks(left: GaussianBudget, history: History) -> Mechanism | None:
    """Gaussians that leak all that is kept, half of it sooner if the first was in favour."""
    match history.answers:
        case ():
            return lattice(mu_of(left, HALF))
        case (first,) if history.first > history.second:
            return leaking(lattice(mu_of(left, HALF), offset=first / 7 % 1), leak_of(left, HALF))
        case (_,):
            return vote_of(left, Fraction(1, 20))
        case (_, _):
            return leaking(lattice(mu_of(left)), leak_of(left))
        case _:
            return truth(Fraction(0), left.delta)


def any_kind(left: GaussianBudget, history: History) -> Mechanism:
    """For any part of what is left; in the end a Gaussian that leaks, for all of it."""
    chance = draws("any", history)
    part = Fraction(chance.randint(1, 9), 10)
    if len(history.answers) == TURNS - 1:
        return leaking(lattice(mu_of(left), offset=chance.random()), leak_of(left))
    match chance.choice(["Gaussian", "leak", "vote", "truth"]):
        case "Gaussian":
            return lattice(mu_of(left, part), offset=chance.random())
        case "leak":
            return leaking(lattice(mu_of(left, part), offset=chance.random()), leak_of(left, part))
        case "vote":
            return vote_of(left, part)
        case _:
            return truth(vote_of(left, part).loss.epsilon, left.delta * part)


def gaussian_game(pick: PickWithin, rule: GaussianRule = GAUSSIAN_RULE, turns: int = TURNS) -> Game:
    capacity = rule.capacity(GRANT)
    mu, told, leak = capacity.mu_above, float(capacity.delta), float(capacity.leak)

    def promise(mu: Fraction, at: float) -> float:
        """A truth is no news where the noise told the same: both tell as if independent."""
        return told + (1 - told) * gaussian_delta(mu, at) + (1 + exp(at)) * leak

    return Game(
        laws=joint_laws(within(rule, pick), turns),
        epsilons=CURVE,
        promise=partial(promise, mu),
        smaller=partial(promise, mu * SMALLER),
    )


# The rule `gaussian`: truths where the first answer was in favour, leaks where it was not.


@dataclass(frozen=True)
class Placed:
    """In favour: likelier under the first table by this factor, after this part of mu squared.

    The Gaussian in the end tells what the adversary has to know at the epsilon of the grant.
    """

    part: Fraction
    factor: float

    def __call__(self, left: GaussianBudget, history: History) -> Mechanism:
        """All truths first, or all leaks; then what is left of the others, if anything is."""
        match history.answers, history.losses:
            case (), _:
                return lattice(mu_of(left, self.part), width=0.25)
            case (_,), _ if history.first > self.factor * history.second:
                return truth(Fraction(0), left.delta)
            case (_, _), (_, GaussianLoss()):
                return truth(Fraction(0), left.delta)
            case _:
                ahead = log(history.first / history.second)
                test = best_test(mu_of(left), float(GRANT.epsilon) - ahead)
                return leaking(test, leak_of(left))


PLACED_TURNS = 3
PLACED = [
    Placed(part, factor)
    for part in (Fraction(1, 40), Fraction(1, 20), Fraction(1, 10), Fraction(1, 4))
    for factor in (0.8, 1.0, 1.25)
]
ALL_BUT_MU = LEAKY_RULE.set_aside + GRANT.delta / 5
"""What its truths and its leaks weigh together."""


def of_one_delta(pick: PickWithin) -> Pick:
    """Picks of what would be left if truths and leaks shared one delta: either may have it all."""
    mu = gaussian_mu(GRANT.epsilon, GRANT.delta - ALL_BUT_MU)

    def fitting(history: History) -> Mechanism | None:
        spent = LEAKY_RULE.cost([stage(loss) for loss in history.losses])
        rest = max(ALL_BUT_MU - spent.delta - spent.leak * ODDS, Fraction(0))
        left = GaussianBudget.of(Fraction(mu) ** 2 - spent.mu_squared, rest, rest / ODDS)
        return pick(left, history)

    return fitting


# All games.

GAMES: dict[str, Callable[[], Game]] = {
    "sum: votes and truths": partial(sum_game, votes_and_truths),
    "sum: Gaussians too": partial(sum_game, gaussians_too),
    "committed: as declared": partial(committed_game, as_declared),
    "committed: less": partial(committed_game, less_than_declared),
    "gaussian: by likelihood": partial(gaussian_game, by_likelihood),
    "gaussian: one vote": partial(gaussian_game, one_vote),
    "gaussian: leaks": partial(gaussian_game, leaks, LEAKY_RULE),
    "gaussian: any kind": partial(gaussian_game, any_kind, LEAKY_RULE),
    "gaussian: any kind, few leaks": partial(gaussian_game, any_kind),
}
NEAR = [  # at which epsilon which share of the promise is told at least
    ("sum: votes and truths", 1.0, 0.999),
    ("committed: as declared", EPSILON, 0.92),
    ("gaussian: by likelihood", 1.0, 0.92),
    ("gaussian: one vote", 0.0, 0.999),
    ("gaussian: leaks", 1.0, 0.89),
]


@cache
def game(name: str) -> Game:
    return GAMES[name]()


@pytest.mark.parametrize("name", GAMES)
def test_no_game_tells_more_than_was_promised(name: str) -> None:
    played = game(name)
    for law in played.laws:
        assert law.sum() == pytest.approx(1, abs=1e-12)
    for epsilon in played.epsilons:
        assert played.told(epsilon) <= played.promise(epsilon) * (1 + FLOATS), epsilon


@pytest.mark.parametrize("name", [name for name in GAMES if "committed" not in name])
def test_no_game_tells_more_than_was_granted(name: str) -> None:
    assert game(name).told(float(GRANT.epsilon)) <= GRANT.delta


@pytest.mark.parametrize(("name", "epsilon", "share"), NEAR)
def test_games_come_near_the_promise(name: str, epsilon: float, share: float) -> None:
    assert game(name).told(epsilon) >= share * game(name).promise(epsilon)


@pytest.mark.parametrize("name", [name for name, *_ in NEAR])
def test_games_break_a_promise_that_is_a_twentieth_smaller(name: str) -> None:
    played = game(name)
    told, smaller = (
        np.array([of(epsilon) for epsilon in played.epsilons])
        for of in (played.told, played.smaller)
    )
    assert (told / smaller).max() > 1.01


@pytest.mark.parametrize("rule", [GAUSSIAN_RULE, LEAKY_RULE])
def test_no_placing_of_truths_and_leaks_tells_more_than_was_granted(rule: GaussianRule) -> None:
    """And one tells nearly all of it."""
    played = [gaussian_game(placed, rule, PLACED_TURNS) for placed in PLACED]
    for one in played:
        for epsilon in one.epsilons:
            assert one.told(epsilon) <= one.promise(epsilon) * (1 + FLOATS), epsilon
    most = max(one.told(float(GRANT.epsilon)) for one in played)
    assert 0.999 * GRANT.delta <= most <= GRANT.delta


def test_if_truths_and_leaks_shared_one_delta_the_same_games_would_tell_more() -> None:
    """A truth where the answer speaks for one table, a leak where it speaks for the other."""
    told = {
        placed: true_delta(joint_laws(of_one_delta(placed), PLACED_TURNS), float(GRANT.epsilon))
        for placed in PLACED
    }
    most = max(PLACED, key=lambda placed: told[placed])
    assert most.factor == 1
    assert told[most] > 1.01 * GRANT.delta


# The mechanisms of the games lose what they state, and no less.


@pytest.mark.parametrize("epsilon", [Fraction(1, 100), Fraction(1, 5), Fraction(2)])
def test_votes_are_pure_and_truths_approximate(epsilon: Fraction) -> None:
    delta = Fraction(1, 1000)
    for made in (vote(epsilon), undecided_vote(epsilon)):
        assert true_delta(made.laws, float(epsilon)) == pytest.approx(0, abs=1e-15)
        assert true_delta(made.laws, float(epsilon) * 0.99) > 1e-5
    told = true_delta(truth(epsilon, delta).laws, float(epsilon))
    assert told == pytest.approx(float(delta), rel=1e-12)


@pytest.mark.parametrize("width", [0.5, 0.625])
@pytest.mark.parametrize("offset", [0.0, 0.3, 0.9])
def test_lattices_are_gaussian_and_hardly_less(offset: float, width: float) -> None:
    mu = Fraction(2, 5)
    laws = lattice(mu, offset, width).laws
    for epsilon in (0.0, 0.5, 1.0, 1.5):
        told = true_delta(laws, epsilon)
        assert told <= gaussian_delta(mu, epsilon) * (1 + FLOATS)
        assert told >= gaussian_delta(mu * Fraction(4, 5), epsilon)


def test_leaking_laws_are_as_near_as_stated_and_lose_as_much_as_that_may() -> None:
    leak = Fraction(1, 10**5)
    kept = lattice(Fraction(2, 5))
    made = leaking(kept, leak)
    for law, before in zip(made.laws, kept.laws, strict=True):
        distance = total_variation(law, np.array([0, 0, *before]))
        assert distance == pytest.approx(float(leak), rel=1e-9)
    for epsilon in (0.0, 0.5, 1.0):
        more = true_delta(made.laws, epsilon) - true_delta(kept.laws, epsilon)
        assert more == pytest.approx((1 + exp(epsilon)) * float(leak), rel=1e-6)
