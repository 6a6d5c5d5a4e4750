"""What the eigenvalue methods have in common: pairs in, k private means out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

from opendp.mod import Domain, Measurement, Metric

from accountant.facts import Fact
from accountant.specs import Budget
from dppca_odp.planned import PlannedStage
from dppca_odp.primitives.stages import Program, make_in_stages
from dppca_odp.spaces import matrix_shape
from dppca_odp.values import Floats


class Estimate(NamedTuple):
    """What a method answers: released numbers only."""

    values: Floats
    """k estimates before post-processing."""
    noise_scales: Floats
    """The standard deviation of the last Gaussian noise in each."""
    lower: Floats
    upper: Floats
    """The range that each mean was taken over."""
    warnings: tuple[str, ...]
    """What the analyst should know, each drawn from released flags."""


class EigenvalueMethod(Fact, ABC):
    """The public parameters of a method, its stages, and what it asks in them.

    ``share`` is the exact budget of the release; ``d_in`` the number of pairs that one privacy
    unit can change.
    """

    def check(self, components: int) -> None:
        """Refuse a number of components that the parameters do not suit.

        Raises:
            ValueError: there is one parameter for each of another number.
        """

    @abstractmethod
    def stages(
        self, share: Budget, *, pairs: int, components: int, d_in: int
    ) -> tuple[PlannedStage, ...]:
        """The stages with their exact shares and losses at ``d_in``."""

    @abstractmethod
    def program(
        self, input_domain: Domain, input_metric: Metric, *, share: Budget, d_in: int
    ) -> Program[Estimate]:
        """What the method asks of pairs (Hamming distance), and makes of the answers."""

    def make(
        self, input_domain: Domain, input_metric: Metric, *, share: Budget, d_in: int
    ) -> Measurement:
        """The method alone, from pairs to an Estimate."""
        pairs, components = matrix_shape(input_domain, input_metric)
        lines = self.stages(share, pairs=pairs, components=components, d_in=d_in)
        return make_in_stages(
            input_domain,
            input_metric,
            d_in=d_in,
            stages=[line.stage for line in lines],
            run=self.program(input_domain, input_metric, share=share, d_in=d_in),
        )
