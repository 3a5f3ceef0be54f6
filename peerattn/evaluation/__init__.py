"""Comparisons a referee believes: splits by period, metrics, tests, and the report."""

from peerattn.evaluation.compare import compare
from peerattn.evaluation.comparison import Comparison, ModelNote
from peerattn.evaluation.comparisons import Comparisons
from peerattn.evaluation.contestants import supports
from peerattn.evaluation.forecast_tests import DieboldMariano, diebold_mariano
from peerattn.evaluation.information import InformationCoefficient, ic, rank_ic
from peerattn.evaluation.metrics import mae, pinball_loss, r2_out_of_sample, r2_within_period, rmse
from peerattn.evaluation.other_splits import NewFirms, PurgedKFold
from peerattn.evaluation.scoring import explain_score
from peerattn.evaluation.splits import Fold, ShortPanelWarning, WalkForward

__all__ = [
    "Comparison",
    "Comparisons",
    "DieboldMariano",
    "Fold",
    "ModelNote",
    "NewFirms",
    "PurgedKFold",
    "InformationCoefficient",
    "ic",
    "pinball_loss",
    "ShortPanelWarning",
    "WalkForward",
    "compare",
    "diebold_mariano",
    "explain_score",
    "mae",
    "r2_out_of_sample",
    "r2_within_period",
    "rank_ic",
    "rmse",
    "supports",
]
