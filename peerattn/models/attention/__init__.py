"""Learned peers: the attention estimators, and what they stand on."""

from peerattn.models.attention.contributions import contributions
from peerattn.models.attention.estimators import PeerAttentionClassifier, PeerAttentionRegressor
from peerattn.models.learners.heads.priors import Prior
from peerattn.models.learners.heads.search_profile import SearchProfile
from peerattn.models.reference import Reference

__all__ = ["PeerAttentionClassifier", "PeerAttentionRegressor", "Prior", "Reference", "SearchProfile", "contributions"]
