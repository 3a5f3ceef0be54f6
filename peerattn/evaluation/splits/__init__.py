"""Which periods and firms are learned from, and which are tested."""
