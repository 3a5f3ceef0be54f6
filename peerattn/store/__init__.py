"""One room and one format for all that is read back: fitted models, checkpoints, finished fits. No pickle."""
