"""A network written to files and other tools' objects, and read back."""
