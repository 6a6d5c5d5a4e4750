"""A budget keeper for private releases: exact amounts, an append-only ledger, clear refusals."""

from accountant.accountant import Accountant
from accountant.amounts import (
    Amount,
    float_above,
    float_below,
    parse_amount,
    show_delta_down,
    show_delta_up,
    show_down,
    show_up,
    to_text,
)
from accountant.audit import Problem, verify
from accountant.charges import Charge
from accountant.composition import BudgetExceeded, total
from accountant.entries import Entry
from accountant.errors import (
    AccountantError,
    GrantConflict,
    InvalidAmount,
    InvalidValue,
    KeyConflict,
    LedgerUnreadable,
    NoGrant,
    OutOfOrder,
    TableMismatch,
    UnitMismatch,
)
from accountant.gaussian import gaussian_delta, gaussian_epsilon, gaussian_mu
from accountant.keys import Authorization, StoredRelease
from accountant.ledger import Ledger
from accountant.losses import ApproximateLoss, GaussianLoss, Loss, PureLoss
from accountant.readings import Reading, reading_of_budget, reading_of_gaussian, reading_of_losses
from accountant.rules import CommittedRule, GaussianRule, Rule, SumRule
from accountant.specs import (
    Budget,
    GaussianBudget,
    PrivacyUnit,
    Split,
    Stage,
    StageWeight,
    TableFacts,
)
from accountant.statements import Statement

__all__ = [
    "Accountant",
    "AccountantError",
    "Amount",
    "ApproximateLoss",
    "Authorization",
    "Budget",
    "BudgetExceeded",
    "Charge",
    "CommittedRule",
    "Entry",
    "GaussianBudget",
    "GaussianLoss",
    "GaussianRule",
    "GrantConflict",
    "InvalidAmount",
    "InvalidValue",
    "KeyConflict",
    "Ledger",
    "LedgerUnreadable",
    "Loss",
    "NoGrant",
    "OutOfOrder",
    "PrivacyUnit",
    "Problem",
    "PureLoss",
    "Reading",
    "Rule",
    "Split",
    "Stage",
    "StageWeight",
    "Statement",
    "StoredRelease",
    "SumRule",
    "TableFacts",
    "TableMismatch",
    "UnitMismatch",
    "float_above",
    "float_below",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "parse_amount",
    "reading_of_budget",
    "reading_of_gaussian",
    "reading_of_losses",
    "show_delta_down",
    "show_delta_up",
    "show_down",
    "show_up",
    "to_text",
    "total",
    "verify",
]
