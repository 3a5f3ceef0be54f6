"""Tests, intervals and regressions of forecasts and networks."""
