"""Attention heads: the module, its training, and fitted heads."""
