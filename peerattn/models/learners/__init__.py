"""Learners: each predicts from cross-sections, and is fitted to them."""
