"""Contestants are fitted and scored, fold by fold; finished pieces are kept."""
