"""What a comparison tells about one of its models."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ModelNote:
    """What a comparison tells about one of its models.

    Attributes
    ----------
    name : str
    kind : str
        "peer model", "plain regressor", or "level control" (the mean of all other firms, which compare adds).
    shown_outcomes : bool
        Whether it was shown the outcomes of each firm's peers.
    settings : str
        The estimator as it prints itself.
    trials : int
        Settings its search tried in each fit; 1 without a search.
    rung : int or None
        Its rung of the ladder, 0 (own characteristics) to 5 (stacked attention); None for what is no rung.
    """

    name: str
    kind: str
    shown_outcomes: bool
    settings: str
    trials: int = 1
    rung: int | None = None

    @property
    def looks_to_peers(self) -> bool:
        """Whether it is a peer model of this package."""
        return self.kind == "peer model"

    @property
    def orders_firms(self) -> bool:
        """Whether its order of a period's firms says anything: a mean of all others differs by the own outcome alone."""
        return self.kind != "level control"
