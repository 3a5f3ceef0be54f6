"""Every panel estimator, learned or fixed, behind the same calls."""

from peerattn.models.attention.contributions import contributions
from peerattn.models.attention.estimators import PeerAttentionClassifier, PeerAttentionRegressor
from peerattn.models.base import PanelEstimator
from peerattn.models.covariance_regressor import CovariancePeerRegressor
from peerattn.models.forecasters import make_model, model_names
from peerattn.models.given_network import PrecomputedPeerRegressor
from peerattn.models.identification import Identification
from peerattn.models.industry import IndustryMedianRegressor, IndustryPeerRegressor
from peerattn.models.kernel.estimator import NadarayaWatsonRegressor
from peerattn.models.learners.heads.search_profile import SearchProfile
from peerattn.models.learners.priors import Comovement, Prior
from peerattn.models.learners.protocol import Learner
from peerattn.models.linear_in_means import LinearInMeansRegressor
from peerattn.models.mixins import PanelClassifierMixin, PanelRegressorMixin
from peerattn.models.own_characteristics import OwnCharacteristicsRegressor
from peerattn.models.own_history import CommonShocksRegressor, OwnHistoryRegressor
from peerattn.models.panel_forecasters import FamaMacBethRegressor, FirmMeanRegressor, IndustryMeansRegressor, LastValueRegressor
from peerattn.models.peer_features import PeerFeatures
from peerattn.models.peer_weights import peer_weights
from peerattn.models.reference import Reference
from peerattn.models.ridge import CrossSectionalRidge
from peerattn.models.split_sample import split_sample
from peerattn.models.stacked import StackedPeerRegressor
from peerattn.models.transformer import PeerTransformerRegressor
from peerattn.models.two_stage import TwoStage
from peerattn.models.wild_bootstrap import wild_cluster_p

__all__ = [
    "CommonShocksRegressor", "Comovement", "CovariancePeerRegressor", "CrossSectionalRidge", "FamaMacBethRegressor",
    "FirmMeanRegressor", "Identification", "IndustryMeansRegressor", "IndustryMedianRegressor", "IndustryPeerRegressor",
    "LastValueRegressor", "Learner", "LinearInMeansRegressor", "NadarayaWatsonRegressor", "OwnCharacteristicsRegressor",
    "OwnHistoryRegressor", "PanelClassifierMixin", "PanelEstimator", "PanelRegressorMixin", "PeerAttentionClassifier",
    "PeerAttentionRegressor", "PeerFeatures", "PeerTransformerRegressor", "PrecomputedPeerRegressor", "Prior", "Reference",
    "SearchProfile", "StackedPeerRegressor", "TwoStage", "contributions", "make_model", "model_names", "peer_weights",
    "split_sample", "wild_cluster_p",
]  # fmt: skip
