"""The next symbol: drawn at random, or the best sequences kept side by side."""

from typing import Protocol

import torch
from torch import Generator, Tensor

from peerattn.exceptions import check_at_least, check_share, expect


def sample(
    log_probabilities: Tensor, generator: Generator, *, temperature: float = 1.0,
    top_k: int | None = None, top_p: float | None = None,
) -> Tensor:  # fmt: skip
    r"""Draw the next symbol of every sequence.

    .. math:: s \sim p(s)^{1/\tau} / \textstyle\sum_r p(r)^{1/\tau}, \quad s \in S

    Parameters
    ----------
    log_probabilities : Tensor, shape (n_sequences, n_symbols)
    generator : torch.Generator
        A CPU generator: every device draws alike.
    temperature : float, default 1
        :math:`\tau`; 0 takes the most likely symbol.
    top_k : int, default None
        S holds the k most likely symbols only.
    top_p : float, default None
        S holds the fewest most likely symbols whose probabilities sum to at least this.

    Returns
    -------
    Tensor of int64, shape (n_sequences,)

    Raises
    ------
    InputError
        When an option is out of range.

    References
    ----------
    Holtzman et al. (2020), The curious case of neural text degeneration, ICLR (top-p).

    Examples
    --------
    >>> p = torch.tensor([[0.5, 0.3, 0.2]])
    >>> draws = [sample(p.log(), torch.Generator().manual_seed(k), top_p=0.7).item() for k in range(20)]
    >>> sorted(set(draws))
    [0, 1]
    """
    expect(0 <= temperature < torch.inf, "temperature", "a number of at least 0", temperature)
    if top_k is not None:
        check_at_least(1, top_k=top_k)
    if top_p is not None:
        check_share(top_p=top_p)
    if temperature == 0:
        return log_probabilities.argmax(-1)
    # on the CPU and in double precision, so that every device draws alike
    ordered, symbols = log_probabilities.cpu().double().sort(descending=True)
    # net of the largest, so that a small temperature does not overflow
    probabilities = ((ordered - ordered[:, :1]) / temperature).softmax(-1)
    if top_k is not None:
        probabilities[:, top_k:] = 0
    if top_p is not None:
        before = probabilities.cumsum(-1) - probabilities
        probabilities = probabilities.masked_fill(before >= top_p * probabilities.sum(-1, keepdim=True), 0)
    drawn = torch.multinomial(probabilities, 1, generator=generator)
    return symbols.gather(1, drawn)[:, 0].to(log_probabilities.device)


class Reader(Protocol):
    """What :func:`beam_search` needs for the next symbols of growing sequences."""

    def next_log_probabilities(self, sequences: Tensor) -> Tensor:
        """Return the log probabilities of the next symbol, (n_sequences, n_symbols), of sequences (n_sequences, t)."""

    def reorder(self, sequences: Tensor) -> None:
        """Note that row k of the next sequences continues row ``sequences[k]`` of the last ones."""


def beam_search(
    reader: Reader, start: Tensor, *, n_beams: int, max_symbols: int, end: int | None = None,
    length_penalty: float = 0.6,
) -> list[list[int]]:  # fmt: skip
    r"""Return the most likely continuation that keeping the best ``n_beams`` at every step finds.

    .. math:: \max_s \frac{\sum_t \log p(s_t \mid s_{<t})}{((5 + |s|) / 6)^\lambda}

    Parameters
    ----------
    reader : Reader
        It is shown the beams of each sequence side by side.
    start : Tensor of int64, shape (n_sequences, t)
        What the sequences start with.
    n_beams : int
        How many continuations are kept; 1 is greedy.
    max_symbols : int
        Longest continuation.
    end : int, default None
        The symbol that ends a sequence; None: all have ``max_symbols``.
    length_penalty : float, default 0.6
        :math:`\lambda`; larger favours longer sequences.

    Returns
    -------
    list of list of int
        A continuation for each sequence, without the end symbol.

    References
    ----------
    Wu et al. (2016), Google's neural machine translation system, equation 14.
    """
    check_at_least(1, n_beams=n_beams, max_symbols=max_symbols)
    n = len(start)
    device = start.device
    sequences = start.repeat_interleave(n_beams, dim=0)  # (n K, t)
    scores = torch.full((n, n_beams), -torch.inf, device=device)
    scores[:, 0] = 0.0  # at first all beams are the same
    best: list[tuple[float, list[int]]] = [(-torch.inf, [])] * n
    largest = ((5 + max_symbols) / 6) ** length_penalty
    # twice as many as beams, should every beam's best be the end; a greedy search stops there
    n_candidates = 1
    if n_beams > 1:
        n_candidates = 2 * n_beams
    reader.reorder(torch.arange(n, device=device).repeat_interleave(n_beams))
    for length in range(1, max_symbols + 1):
        log_p = reader.next_log_probabilities(sequences).view(n, n_beams, -1)  # (n, K, V)
        n_symbols = log_p.shape[-1]
        total = (scores[..., None] + log_p).flatten(1)
        found, where = total.topk(min(n_candidates, total.shape[1]))
        beams = where // n_symbols
        symbols = where % n_symbols
        penalty = ((5 + length) / 6) ** length_penalty
        ending = torch.zeros_like(symbols, dtype=torch.bool)
        if end is not None:
            ending = symbols == end
        done = (ending | (length == max_symbols)) & (found > -torch.inf)
        for row, rank in done[:, :n_beams].nonzero().tolist():
            score = float(found[row, rank]) / penalty
            if score > best[row][0]:
                written = sequences[row * n_beams + beams[row, rank], start.shape[1] :].tolist()
                symbol = int(symbols[row, rank])
                if symbol != end:
                    written.append(symbol)
                best[row] = (score, written)
        # the beams that go on
        live = found.masked_fill(ending, -torch.inf).topk(n_beams)  # (n, K)
        # log probabilities only fall: no beam that goes on can end with more than this
        reachable = (live.values[:, 0] / largest).tolist()
        if all(score >= most for (score, _), most in zip(best, reachable)):
            break
        scores = live.values
        rows = (torch.arange(n, device=device)[:, None] * n_beams + beams.gather(1, live.indices)).flatten()
        sequences = torch.cat([sequences[rows], symbols.gather(1, live.indices).view(-1, 1)], dim=1)
        reader.reorder(rows)
    return [written for _, written in best]
