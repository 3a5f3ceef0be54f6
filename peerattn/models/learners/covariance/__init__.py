"""A learned covariance across the firms of a period: predictions by its exact leave-one-out."""
