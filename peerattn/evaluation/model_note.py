"""What is known of one model of a comparison: the information that it uses, and what it selected."""

from dataclasses import dataclass, field

from peerattn.evaluation.running.information import COMMON, OWN, PEERS


@dataclass(frozen=True)
class ModelNote:
    """One of the models of a comparison.

    Attributes
    ----------
    name : str
    information : str
        The last group of information that it uses: "own characteristics", "firm history", "common shocks" or "peers".
    reads : str
        What it reads, in words.
    settings : str
        The estimator as it prints itself.
    trials : int
        Settings its search tried in each fit; 1 without a search.
    control : bool
        Whether ``compare`` added it.
    fits : int
        How often it was fitted.
    selected : dict of str to (tuple of str, int)
        Of a model that selects, for each group: the parts of the last fit in which any was selected, and in how many fits.
    untested : dict of str to str
        Of a stack, for groups that were tested in no fit: why.
    """

    name: str
    information: str = OWN
    reads: str = "own x"
    settings: str = ""
    trials: int = 1
    control: bool = False
    fits: int = 1
    selected: dict[str, tuple[tuple[str, ...], int]] = field(default_factory=dict)
    untested: dict[str, str] = field(default_factory=dict)

    @property
    def fits_with_peers(self) -> int | None:
        """In how many fits peers were selected; None for a model that does not test whether they are."""
        return self.selected[PEERS][1] if self.selected else None

    def selected_in(self, group: str) -> str:
        """Return what was selected of a group, in words."""
        parts, n = self.selected[group]
        if not n:
            reason = self.untested.get(group)
            return f"not tested: {reason}" if reason else "nothing selected"
        return ", ".join(parts) + ("" if n == self.fits else f" (in {n} of {self.fits} fits)")

    @property
    def averages_others(self) -> bool:
        """Whether ``compare`` added it, and it is a mean of other firms' outcomes alone."""
        return self.control and self.information == COMMON and "own" not in self.reads

    @property
    def uses_peers(self) -> bool:
        """Whether it weighs chosen peers; means of all firms or of an industry choose none."""
        return self.information == PEERS
