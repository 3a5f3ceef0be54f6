"""One place and one format for all that is read back: fitted models and finished fits. No pickle."""
