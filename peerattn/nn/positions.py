"""Positions of rows: added to the rows, turned into queries and keys, or added to the scores."""

import math

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from peerattn.exceptions import check_at_least, expect
from peerattn.nn.linear import normal


def sinusoidal_positions(n: int, d_model: int, *, start: int = 0, device: torch.device | None = None) -> Tensor:
    r"""Return fixed positions made of sines and cosines of falling frequency.

    .. math:: p_{t, 2k} = \sin(t / 10000^{2k/d}), \qquad p_{t, 2k+1} = \cos(t / 10000^{2k/d})

    Parameters
    ----------
    n : int
        Number of positions.
    d_model : int
        Width d, even.
    start : int, default 0
        First position.
    device : torch.device, default None

    Returns
    -------
    Tensor, shape (n, d_model)

    Raises
    ------
    InputError
        When the width is odd.

    References
    ----------
    Vaswani et al. (2017), Attention is all you need, section 3.5.

    Examples
    --------
    >>> sinusoidal_positions(2, 4)
    tensor([[0.0000, 1.0000, 0.0000, 1.0000],
            [0.8415, 0.5403, 0.0100, 0.9999]])
    """
    angle = _angles(start, n, d_model, device, torch.float32)  # (n, d/2)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)


class LearnedPositions(nn.Module):
    """A learned vector for every position.

    Parameters
    ----------
    n_positions : int
        Longest sequence.
    d_model : int
        Width.
    generator : torch.Generator, default None
        Draws the start, normal with standard deviation 0.02.

    Examples
    --------
    >>> LearnedPositions(10, 4)(3).shape
    torch.Size([3, 4])
    """

    def __init__(self, n_positions: int, d_model: int, *, generator: Generator | None = None):
        super().__init__()
        self.weight = normal(n_positions, d_model, std=0.02, generator=generator)

    def forward(self, n: int, start: int = 0) -> Tensor:
        """Return the vectors of positions start, ..., start + n - 1: (n, d_model).

        Raises
        ------
        InputError
            When the sequence is longer than the positions.
        """
        most = len(self.weight)
        check_at_least(0, n=n, start=start)
        remedy = "Cut the sequence, or build the model with more positions."
        expect(start + n <= most, "sequence", f"at most {most} positions", start + n, remedy)
        return self.weight[start : start + n]


class LearnedPositions2d(nn.Module):
    r"""Learned positions on a grid, :math:`p_{rc} = \text{row}_r + \text{column}_c`.

    Parameters
    ----------
    n_rows, n_columns : int
        Size of the grid.
    d_model : int
        Width.
    std : float, default 0.02
        Of the normal start. Small beside what is embedded, positions are learned late: a short training needs more.
    generator : torch.Generator, default None
        Draws the start.

    Examples
    --------
    >>> LearnedPositions2d(2, 3, 4)().shape  # row by row
    torch.Size([6, 4])
    """

    def __init__(self, n_rows: int, n_columns: int, d_model: int, *, std: float = 0.02, generator: Generator | None = None):
        super().__init__()
        generator = generator or Generator()
        self.rows = normal(n_rows, d_model, std=std, generator=generator)
        self.columns = normal(n_columns, d_model, std=std, generator=generator)

    def forward(self) -> Tensor:
        """Return the vectors of the whole grid, row by row: (n_rows * n_columns, d_model)."""
        return (self.rows[:, None] + self.columns).flatten(0, 1)


def rotary(x: Tensor, *, start: int = 0, base: float = 10_000.0) -> Tensor:
    r"""Turn pairs of columns by an angle proportional to the position, so that products see only distances.

    .. math:: (x_{2k}, x_{2k+1}) \mapsto \text{rotation by } t\,\text{base}^{-2k/d},
              \qquad R_s q \cdot R_t k = q \cdot R_{t-s} k

    Parameters
    ----------
    x : Tensor, shape (..., n, d)
        Queries or keys of positions start, ..., start + n - 1; d is even.
    start : int, default 0
    base : float, default 10000

    Returns
    -------
    Tensor, shape (..., n, d)

    Raises
    ------
    InputError
        When the width is odd.

    Notes
    -----
    Angles are computed in single precision, or in that of x where it is higher: at position 100,000 columns of size one are
    off by 0.005.

    References
    ----------
    Su et al. (2021), RoFormer: enhanced transformer with rotary position embedding.

    Examples
    --------
    >>> x = torch.ones(3, 2)
    >>> scores = rotary(x) @ rotary(x).T
    >>> bool(torch.isclose(scores[0, 1], scores[1, 2]))
    True
    """
    dtype = torch.promote_types(x.dtype, torch.float32)
    n, d = x.shape[-2:]
    angle = _angles(start, n, d, x.device, dtype, base)
    sine = angle.sin().to(x.dtype)
    cosine = angle.cos().to(x.dtype)  # (n, d/2)
    even = x[..., 0::2]
    odd = x[..., 1::2]
    return torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], dim=-1).flatten(-2)


class PairBias(nn.Module):
    r"""What is known of a pair, added to the scores of every head: distance, hops, or any pair representation.

    .. math:: b^h_{ij} = w_h' z_{ij}

    Parameters
    ----------
    d_pair : int
        Width of z; for codes, their number.
    n_heads : int
        Number of heads H.

    Notes
    -----
    Starts at zero, where it changes nothing. Codes are one-hot rows: the same weights, looked up. A bias that is
    learned leaves the fast kernel of `attention`.

    References
    ----------
    Raffel et al. (2020), T5 (distances). Ying et al. (2021), Graphormer (hops). Jumper et al. (2021), AlphaFold,
    supplement 1.6.2 (pair representation).

    Examples
    --------
    >>> bias = PairBias(5, n_heads=2)
    >>> bias(relative_distance(4, 2)).shape  # one code per pair
    torch.Size([2, 4, 4])
    >>> bias(torch.zeros(3, 4, 4, 5)).shape  # a vector per pair, 3 sequences
    torch.Size([3, 2, 4, 4])
    """

    def __init__(self, d_pair: int, n_heads: int):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(d_pair, n_heads))

    def forward(self, pairs: Tensor) -> Tensor:
        """Return the bias, (..., n_heads, n, n), of codes (..., n, n) or vectors (..., n, n, d_pair)."""
        if pairs.is_floating_point():
            return (pairs @ self.weight).movedim(-1, -3)
        return F.embedding(pairs, self.weight).movedim(-1, -3)


def relative_distance(n: int, longest: int, *, device: torch.device | None = None) -> Tensor:
    """Return how far behind the query each key is, cut at ``longest``, as codes for `PairBias`.

    Parameters
    ----------
    n : int
        Length of the sequence.
    longest : int
        Distances beyond it share a code; ``2 * longest + 1`` codes.
    device : torch.device, default None

    Returns
    -------
    Tensor of int64, shape (n, n)
        ``longest`` on the diagonal, larger where the key comes later.

    Examples
    --------
    >>> relative_distance(3, 1)
    tensor([[1, 2, 2],
            [0, 1, 2],
            [0, 0, 1]])
    """
    check_at_least(0, n=n, longest=longest)
    place = torch.arange(n, device=device)
    return (place - place[:, None]).clamp(-longest, longest) + longest


def hop_distance(adjacency: Tensor, longest: int) -> Tensor:
    """Return the number of steps from each node to each other, as codes for `PairBias`.

    Parameters
    ----------
    adjacency : bool Tensor, shape (..., n, n)
        True where one step leads from the row to the column.
    longest : int
        Nodes farther off, or out of reach, have the code ``longest + 1``: ``longest + 2`` codes in all.

    Returns
    -------
    Tensor of int64, shape (..., n, n)

    Examples
    --------
    >>> line = torch.tensor([[0, 1, 0], [0, 0, 1], [0, 0, 0]]).bool()
    >>> hop_distance(line, 2)
    tensor([[0, 1, 2],
            [3, 0, 1],
            [3, 3, 0]])
    """
    expect(adjacency.dtype == torch.bool, "adjacency", "a bool tensor (True = one step)", adjacency.dtype)
    check_at_least(0, longest=longest)
    step = adjacency.float()
    reached = torch.eye(step.shape[-1], dtype=torch.bool, device=step.device).expand(step.shape)
    hops = (~reached).long()  # how many numbers of steps, from 0, do not reach it
    for _ in range(min(longest, step.shape[-1])):  # no way is longer than the number of nodes
        reached = reached | (reached.float() @ step > 0)
        hops = hops + ~reached
    return hops.masked_fill(~reached, longest + 1)


def _angles(start: int, n: int, width: int, device: torch.device | None, dtype: torch.dtype, base: float = 10_000.0) -> Tensor:
    expect(width % 2 == 0, "d_model or d_head", "an even width, for sines and cosines in pairs", width)
    # whole numbers first: a range of single-precision numbers that are large has another length
    positions = torch.arange(start, start + n, device=device).to(dtype)
    pairs = torch.arange(0, width, 2, device=device, dtype=dtype)
    return positions[:, None] * torch.exp(pairs * (-math.log(base) / width))
