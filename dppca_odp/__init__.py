"""Private principal component analysis on OpenDP, with a budget ledger.

Plan what to release, see what it costs, run it against an accountant::

    plan = Plan(budget=..., unit=..., columns=..., releases=...)
    print(plan.preview(rows=20_190))
    release = plan.run(table, Accountant("ledger.db", data_set="visits"))

The constructors ``make_*`` chain with ``>>`` like OpenDP's own; importing this package turns on
OpenDP's features ``contrib`` and ``honest-but-curious`` (see ``dppca_odp.spaces``).
"""

from accountant import Accountant, Budget, BudgetExceeded, PrivacyUnit
from dppca_odp.advice import Advice, advise
from dppca_odp.columns import Column, Label
from dppca_odp.directions import (
    Directions,
    make_directions,
    make_kendall_matrix,
    make_noisy_eigenvectors,
    then_directions,
    then_kendall_matrix,
    then_noisy_eigenvectors,
)
from dppca_odp.eigenvalues.adaptive import Adaptive, make_adaptive, then_adaptive
from dppca_odp.eigenvalues.clipped import Clipped, make_clipped_mean, then_clipped_mean
from dppca_odp.eigenvalues.huber import Huber, make_huber, then_huber
from dppca_odp.eigenvalues.pmwm import PMWM, make_pmwm, then_pmwm
from dppca_odp.eigenvalues.scree import Scree, make_scree, then_scree
from dppca_odp.errors import (
    DppcaError,
    InvalidPlan,
    InvalidRelease,
    LossExceedsCharge,
    PoorOutlook,
    ReleaseFailed,
    UnusableTable,
)
from dppca_odp.flags import Flag
from dppca_odp.frame import Frame
from dppca_odp.plan import Plan, make_plan, then_plan
from dppca_odp.plots.budget import plot_budget
from dppca_odp.plots.pictures import pictures, save_pictures
from dppca_odp.plots.privacy import plot_privacy
from dppca_odp.plots.scores import plot_points, plot_scores
from dppca_odp.plots.scree import plot_scree
from dppca_odp.primitives.columns import (
    make_leading_columns,
    make_projection,
    make_scaled_columns,
    then_leading_columns,
    then_projection,
    then_scaled_columns,
)
from dppca_odp.primitives.means import GaussianMean, make_gaussian_mean, then_gaussian_mean
from dppca_odp.primitives.noise import (
    Link,
    Noisy,
    gaussian_to_approximate,
    make_gaussian,
    make_gaussian_chain,
    then_gaussian,
    then_gaussian_chain,
)
from dppca_odp.primitives.octaves import (
    make_octave_counts,
    make_tail_count,
    then_octave_counts,
    then_tail_count,
)
from dppca_odp.primitives.pairs import (
    Pairing,
    draw_pairing,
    make_half_squared_differences,
    make_part_of_pairs,
    ring_degree,
    then_half_squared_differences,
    then_part_of_pairs,
)
from dppca_odp.primitives.postprocess import (
    nonincreasing,
    nonnegative,
    proportions_of_variance,
)
from dppca_odp.primitives.quantiles import (
    Quantile,
    SearchGrid,
    make_signed_quantile,
    make_unbounded_quantile,
    then_signed_quantile,
    then_unbounded_quantile,
)
from dppca_odp.primitives.scales import (
    make_dyadic_counts,
    make_dyadic_scale,
    then_dyadic_counts,
    then_dyadic_scale,
)
from dppca_odp.primitives.stages import (
    make_committed_stages,
    make_in_stages,
    then_committed_stages,
    then_in_stages,
)
from dppca_odp.primitives.sums import make_clamped_sum, then_clamped_sum
from dppca_odp.releases import Release, ReleasedDirections, ReleasedScores, ReleasedScree
from dppca_odp.scores.additive import (
    make_additive_histogram,
    make_cell_counts,
    make_grouped_additive_histogram,
    then_additive_histogram,
    then_cell_counts,
    then_grouped_additive_histogram,
)
from dppca_odp.scores.cells import Cells, Histogram
from dppca_odp.scores.frames import (
    PrivateFrame,
    make_distances,
    make_score_frame,
    then_distances,
    then_score_frame,
)
from dppca_odp.scores.sampling import sample_points
from dppca_odp.scores.scores import (
    Scores,
    make_score_picture,
    make_scores,
    then_score_picture,
    then_scores,
)
from dppca_odp.scores.sparse import (
    make_cell_map,
    make_grouped_sparse_histogram,
    make_sparse_histogram,
    make_threshold_noise,
    then_cell_map,
    then_grouped_sparse_histogram,
    then_sparse_histogram,
    then_threshold_noise,
)
from dppca_odp.spaces import matrix_domain, rows_metric
from dppca_odp.tables import load_table

__all__ = [
    "PMWM",
    "Accountant",
    "Adaptive",
    "Advice",
    "Budget",
    "BudgetExceeded",
    "Cells",
    "Clipped",
    "Column",
    "Directions",
    "DppcaError",
    "Flag",
    "Frame",
    "GaussianMean",
    "Histogram",
    "Huber",
    "InvalidPlan",
    "InvalidRelease",
    "Label",
    "Link",
    "LossExceedsCharge",
    "Noisy",
    "Pairing",
    "Plan",
    "PoorOutlook",
    "PrivacyUnit",
    "PrivateFrame",
    "Quantile",
    "Release",
    "ReleaseFailed",
    "ReleasedDirections",
    "ReleasedScores",
    "ReleasedScree",
    "Scores",
    "Scree",
    "SearchGrid",
    "UnusableTable",
    "advise",
    "draw_pairing",
    "gaussian_to_approximate",
    "load_table",
    "make_adaptive",
    "make_additive_histogram",
    "make_cell_counts",
    "make_cell_map",
    "make_clamped_sum",
    "make_clipped_mean",
    "make_committed_stages",
    "make_directions",
    "make_distances",
    "make_dyadic_counts",
    "make_dyadic_scale",
    "make_gaussian",
    "make_gaussian_chain",
    "make_gaussian_mean",
    "make_grouped_additive_histogram",
    "make_grouped_sparse_histogram",
    "make_half_squared_differences",
    "make_huber",
    "make_in_stages",
    "make_kendall_matrix",
    "make_leading_columns",
    "make_noisy_eigenvectors",
    "make_octave_counts",
    "make_part_of_pairs",
    "make_plan",
    "make_pmwm",
    "make_projection",
    "make_scaled_columns",
    "make_score_frame",
    "make_score_picture",
    "make_scores",
    "make_scree",
    "make_signed_quantile",
    "make_sparse_histogram",
    "make_tail_count",
    "make_threshold_noise",
    "make_unbounded_quantile",
    "matrix_domain",
    "nonincreasing",
    "nonnegative",
    "pictures",
    "plot_budget",
    "plot_points",
    "plot_privacy",
    "plot_scores",
    "plot_scree",
    "proportions_of_variance",
    "ring_degree",
    "rows_metric",
    "sample_points",
    "save_pictures",
    "then_adaptive",
    "then_additive_histogram",
    "then_cell_counts",
    "then_cell_map",
    "then_clamped_sum",
    "then_clipped_mean",
    "then_committed_stages",
    "then_directions",
    "then_distances",
    "then_dyadic_counts",
    "then_dyadic_scale",
    "then_gaussian",
    "then_gaussian_chain",
    "then_gaussian_mean",
    "then_grouped_additive_histogram",
    "then_grouped_sparse_histogram",
    "then_half_squared_differences",
    "then_huber",
    "then_in_stages",
    "then_kendall_matrix",
    "then_leading_columns",
    "then_noisy_eigenvectors",
    "then_octave_counts",
    "then_part_of_pairs",
    "then_plan",
    "then_pmwm",
    "then_projection",
    "then_scaled_columns",
    "then_score_frame",
    "then_score_picture",
    "then_scores",
    "then_scree",
    "then_signed_quantile",
    "then_sparse_histogram",
    "then_tail_count",
    "then_threshold_noise",
    "then_unbounded_quantile",
]
