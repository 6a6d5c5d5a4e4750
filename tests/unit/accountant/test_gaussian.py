import math
import time
from fractions import Fraction

import pytest
from mpmath import mp

from accountant.errors import InvalidAmount
from accountant.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu

MU = [  # computed elsewhere: epsilon, delta, mu
    ("0.01", "1e-9", 0.00218098466104435),
    ("0.05", "1e-6", 0.0144360102519314),
    ("0.1", "1e-6", 0.0275446502438276),
    ("0.25", "1e-8", 0.052286552766924),
    ("0.5", "1e-6", 0.124106149030528),
    ("0.5", "1e-5", 0.142210558669261),
    ("1", "1e-6", 0.236704380663436),
    ("1", "1e-5", 0.268051123211294),
    ("3", "1e-5", 0.719117435221793),
    ("8", "1e-6", 1.53154511756615),
    ("20", "1e-10", 2.66563292588851),
]
EPSILON = [  # mu, delta, epsilon
    ("0.1", "1e-6", 0.396857377644084),
    ("0.5", "1e-6", 2.25408465021974),
    ("1", "1e-5", 4.37717809568122),
    ("2", "1e-6", 10.9971512142207),
    ("5", "1e-9", 41.8333750805505),
]
TINY = Fraction(1, 10**300)


def exact_delta(mu: Fraction, epsilon: Fraction, leak: Fraction = Fraction(0)) -> Fraction:
    """The defining formula at 400 digits, independent of the code under test."""
    with mp.workdps(400):
        m = mp.mpf(mu.numerator) / mu.denominator
        e = mp.mpf(epsilon.numerator) / epsilon.denominator
        slack = mp.mpf(leak.numerator) / leak.denominator
        left = mp.erfc((e / m - m / 2) / mp.sqrt(2)) / 2
        right = mp.exp(e) * mp.erfc((e / m + m / 2) / mp.sqrt(2)) / 2
        value = left - right + (1 + mp.exp(e)) * slack
        return Fraction(int(mp.nint(value * mp.mpf(10) ** 390)), 10**390)


@pytest.mark.parametrize(("epsilon", "delta", "expected"), MU)
def test_mu_agrees_with_known_values(epsilon: str, delta: str, expected: float) -> None:
    assert gaussian_mu(Fraction(epsilon), Fraction(delta)) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize(("mu", "delta", "expected"), EPSILON)
def test_epsilon_agrees_with_known_values(mu: str, delta: str, expected: float) -> None:
    assert gaussian_epsilon(Fraction(mu), Fraction(delta)) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize(("epsilon", "delta", "_mu"), MU)
def test_mu_is_the_last_float_that_keeps_the_promise(epsilon: str, delta: str, _mu: float) -> None:
    mu = gaussian_mu(Fraction(epsilon), Fraction(delta))
    after = math.nextafter(mu, math.inf)
    assert exact_delta(Fraction(mu), Fraction(epsilon)) <= Fraction(delta)
    assert exact_delta(Fraction(after), Fraction(epsilon)) > Fraction(delta)


@pytest.mark.parametrize(("mu", "delta", "_epsilon"), EPSILON)
def test_epsilon_is_the_first_float_that_keeps_the_promise(
    mu: str, delta: str, _epsilon: float
) -> None:
    epsilon = gaussian_epsilon(Fraction(mu), Fraction(delta))
    before = math.nextafter(epsilon, 0.0)
    assert exact_delta(Fraction(mu), Fraction(epsilon)) <= Fraction(delta)
    assert exact_delta(Fraction(mu), Fraction(before)) > Fraction(delta)


@pytest.mark.parametrize(("mu", "epsilon"), [("1", "1"), ("0.1", "3"), ("2", "0"), ("1e-5", "0")])
def test_delta_is_the_first_float_above_the_formula(mu: str, epsilon: str) -> None:
    delta = gaussian_delta(Fraction(mu), Fraction(epsilon))
    exact = exact_delta(Fraction(mu), Fraction(epsilon))
    assert math.nextafter(delta, 0.0) < exact <= delta


@pytest.mark.parametrize("leak", ["1e-9", "3e-9", "1e-300"])
def test_the_leak_is_paid_for_in_both_directions(leak: str) -> None:
    slack, delta, one = Fraction(leak), Fraction("1e-6"), Fraction(1)
    epsilon = gaussian_epsilon(1, delta, slack)
    mu = gaussian_mu(1, delta, slack)
    assert exact_delta(one, Fraction(epsilon), slack) <= delta
    assert exact_delta(one, Fraction(math.nextafter(epsilon, 0.0)), slack) > delta
    assert exact_delta(Fraction(mu), one, slack) <= delta
    assert exact_delta(Fraction(math.nextafter(mu, 9.0)), one, slack) > delta
    assert gaussian_epsilon(1, delta) <= epsilon
    assert gaussian_mu(1, delta) >= mu


def test_a_leak_that_no_epsilon_can_pay_for_is_infinite() -> None:
    assert [math.inf] * 3 == [gaussian_epsilon(1, 1e-6, leak) for leak in (1e-8, 1e-6, 0.9)]


def test_a_leak_that_no_mu_can_pay_for_is_an_error() -> None:
    with pytest.raises(InvalidAmount, match=r"^leak must be at most delta / \(1 \+ e\^epsilon\)"):
        gaussian_mu(1, 1e-6, 1e-6)


def test_no_noise_is_needed_where_nothing_leaks() -> None:
    assert gaussian_epsilon(0, 0) == 0.0
    assert gaussian_epsilon(0, TINY) == 0.0
    assert math.inf == gaussian_epsilon(0, TINY, TINY)
    assert gaussian_delta(0, 1) == 0.0
    assert gaussian_mu(1, 0) == 0.0


def test_a_gaussian_is_never_pure() -> None:
    assert math.inf == gaussian_epsilon(1e-3, 0)
    assert math.ulp(0.0) == gaussian_delta(1e-300, 100)


def test_epsilon_zero_is_total_variation() -> None:
    assert gaussian_mu(0, 1e-6) == pytest.approx(1e-6 * math.sqrt(2 * math.pi), rel=1e-9)
    assert gaussian_epsilon(1e-7, 1e-6) == 0.0


def test_extreme_arguments_answer_safely_and_soon() -> None:
    begun = time.monotonic()
    for epsilon in (0, 1, 100):
        mu = gaussian_mu(epsilon, TINY)
        assert exact_delta(Fraction(mu), Fraction(epsilon)) <= TINY
    assert gaussian_delta(Fraction(10**900), 1) == 1.0
    assert gaussian_mu(10**6, 1e-6) == gaussian_mu(10**9, 1e-6)
    assert math.inf == gaussian_epsilon(1e308, 1e-6)
    assert gaussian_epsilon(1e40, 1e-6) == pytest.approx(5e79)
    assert gaussian_epsilon(Fraction(1, 10**900), 1e-6) == 0.0
    assert gaussian_mu(1, 1 - 2**-53) > 16
    assert time.monotonic() - begun < 20  # and under one second when idle


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_refused(value: float) -> None:
    with pytest.raises(InvalidAmount, match=r"^mu must be finite; got "):
        gaussian_delta(value, 1)


def test_what_is_out_of_range_is_refused() -> None:
    with pytest.raises(InvalidAmount, match=r"^epsilon must not be negative; got -1"):
        gaussian_mu(-1, 1e-6)
    with pytest.raises(InvalidAmount, match=r"^delta must be below 1; got 1"):
        gaussian_epsilon(1, 1)
    with pytest.raises(InvalidAmount, match=r"^leak must not be negative"):
        gaussian_epsilon(1, 1e-6, -1e-9)
