"""What can be inferred of a peer network: tests against permuted firms, dyadic regression, placebos."""
