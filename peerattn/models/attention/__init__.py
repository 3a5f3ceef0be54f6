"""Learned peers: the attention estimators, and what they stand on."""
