"""``python -m peerattn`` is the command ``peerattn``."""

from peerattn.cli import main

if __name__ == "__main__":
    main()
