"""Losses, R², information coefficients, portfolios, groups."""
