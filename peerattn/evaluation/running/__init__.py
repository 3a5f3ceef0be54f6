"""Entries are fitted and scored, fold by fold; finished fits are kept."""
