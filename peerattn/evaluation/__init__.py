"""Comparisons a referee believes: splits by period, metrics, tests, and the report."""

from peerattn.evaluation.claims import Claims
from peerattn.evaluation.compare import compare
from peerattn.evaluation.compared import ModelNote
from peerattn.evaluation.comparison import Comparison, Comparisons
from peerattn.evaluation.gains import Gain, gain_by, gain_by_firm
from peerattn.evaluation.inference.forecast_tests import ForecastTest, MeanTest, diebold_mariano, mean_test
from peerattn.evaluation.inference.influence import Influence, influence
from peerattn.evaluation.inference.interval_regressor import IntervalRegressor
from peerattn.evaluation.inference.marginal_effects import MarginalEffects, marginal_effects
from peerattn.evaluation.inference.multiple_tests import ConfidenceSet, model_confidence_set
from peerattn.evaluation.inference.network_bootstrap import NetworkBootstrap, bootstrap_network
from peerattn.evaluation.inference.regressions import Calibration, FamaMacBethSlope, calibration, fama_macbeth
from peerattn.evaluation.leak_audit.checks import AuditLine
from peerattn.evaluation.leak_audit.runner import Audit, audit
from peerattn.evaluation.measures.factor_adjusted import factor_adjusted
from peerattn.evaluation.measures.groups import scores_by
from peerattn.evaluation.measures.information import InformationCoefficient, ic, rank_ic
from peerattn.evaluation.measures.metrics import mae, nowcast_score, r2_out_of_sample, r2_within_period, rmse
from peerattn.evaluation.measures.portfolios import QuantilePortfolios, quantile_portfolios
from peerattn.evaluation.measures.pricing import pricing_errors
from peerattn.evaluation.measures.valuation import median_ape, percentage_errors, share_near
from peerattn.evaluation.pruning import head_importance, prune, pruning_curve
from peerattn.evaluation.running.entries import supports
from peerattn.evaluation.running.fitting import Failure
from peerattn.evaluation.sample import PanelDescription, describe_panel
from peerattn.evaluation.splits import Fold, NewFirms, ShortPanelWarning, WalkForward

__all__ = [
    "audit", "Audit", "AuditLine", "bootstrap_network", "Calibration", "calibration", "Claims", "compare", "Comparison",
    "Comparisons", "ConfidenceSet", "describe_panel", "diebold_mariano", "nowcast_score", "factor_adjusted",
    "Failure", "fama_macbeth", "FamaMacBethSlope", "Fold", "ForecastTest", "Gain", "gain_by", "gain_by_firm", "head_importance",
    "ic", "influence", "Influence", "InformationCoefficient", "IntervalRegressor", "mae", "marginal_effects", "MarginalEffects",
    "mean_test", "MeanTest", "median_ape", "model_confidence_set", "ModelNote", "NetworkBootstrap", "NewFirms",
    "PanelDescription", "percentage_errors", "pricing_errors", "prune", "pruning_curve", "quantile_portfolios",
    "QuantilePortfolios", "r2_out_of_sample", "r2_within_period", "rank_ic", "rmse", "scores_by", "share_near",
    "ShortPanelWarning", "supports", "WalkForward",
]  # fmt: skip
