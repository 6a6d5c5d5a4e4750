from fractions import Fraction

import pytest
from pydantic import TypeAdapter, ValidationError

from accountant.losses import ApproximateLoss, GaussianLoss, Loss, PureLoss

LOSSES: list[Loss] = [
    PureLoss(epsilon=Fraction(1, 3), count=10),
    GaussianLoss(mu=Fraction(0.1)),
    ApproximateLoss(epsilon=Fraction(1), delta=Fraction(1, 10**6)),
]


@pytest.mark.parametrize("loss", LOSSES)
def test_json_goes_both_ways_and_the_kind_tells_them_apart(loss: Loss) -> None:
    adapter: TypeAdapter[Loss] = TypeAdapter(Loss)
    assert loss == adapter.validate_json(adapter.dump_json(loss))


@pytest.mark.parametrize("count", [0, -1, True, 1.0, "2"])
def test_a_count_is_a_positive_integer(count: object) -> None:
    with pytest.raises(ValidationError, match="count"):
        PureLoss.model_validate({"epsilon": "1", "count": count})


def test_a_loss_of_everything_is_refused() -> None:
    with pytest.raises(ValidationError, match="delta must be below 1; got 1"):
        ApproximateLoss.model_validate({"epsilon": "1", "delta": "1"})


def test_a_loss_is_frozen_and_knows_its_fields() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        LOSSES[0].count = 2
    with pytest.raises(ValidationError, match="extra"):
        PureLoss.model_validate({"epsilon": "1", "delta": "0"})
    with pytest.raises(ValidationError, match="mu"):
        GaussianLoss.model_validate({})
