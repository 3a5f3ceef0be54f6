"""Pictures of a peer network."""
