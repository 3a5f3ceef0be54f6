"""Comparisons a referee believes: splits by period, metrics, tests, and the report."""
