"""Peers by a fixed kernel on characteristics: Nadaraya–Watson and local lines."""

from peerattn.models.kernel.estimator import NadarayaWatsonRegressor

__all__ = ["NadarayaWatsonRegressor"]
