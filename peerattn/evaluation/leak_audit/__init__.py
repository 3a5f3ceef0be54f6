"""Leak audit: what a model must not see is changed, and nothing may follow."""
