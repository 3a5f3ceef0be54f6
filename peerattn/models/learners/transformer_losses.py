"""What a transformer over firms learns by: losses of whole cross-sections."""

from collections.abc import Callable

import torch
from torch import Tensor

from peerattn.models.learners.losses import net_of_common

#: Predictions (B, n, K), targets (B, n, K) and weights (B, n; 0 where padded) of whole cross-sections: one number.
SectionLoss = Callable[[Tensor, Tensor, Tensor], Tensor]
SOFTNESS = 0.2  # standard deviations of predictions within which ranks are blurred
LEVERAGE = 3.0  # first portfolios are then neither negligible nor ruinous, in standard deviations of returns


def squared_error(predicted: Tensor, y: Tensor, weight: Tensor, common: float = 0.0) -> Tensor:
    r"""Return the mean of squared errors, a share of each period's mean error taken out.

    The share :math:`\theta_t = 1 - (1 + n_t \tau)^{-1/2}` is that of generalised least squares with random effects of
    periods; τ (``common``) is the variance that a period's targets share over that of one of them.
    """
    squares = net_of_common(predicted - y, weight, common).square().sum(-1)
    return (squares * weight).sum() / weight.sum()


def rank_correlation(predicted: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    r"""Return one less the mean information coefficient: the correlation of ranks within periods, of predictions softened.

    .. math:: \text{rank}_i = \sum_j \sigma\Bigl(\frac{\hat y_i - \hat y_j}{s \cdot sd(\hat y)}\Bigr)

    References
    ----------
    Qin, Liu and Li (2010), A general approximation framework for direct optimization of information retrieval measures,
    Information Retrieval 13(4).

    Examples
    --------
    >>> y = torch.tensor([[[1.0], [2.0], [3.0]]])
    >>> bool(rank_correlation(y, y, torch.ones(1, 3)) < 0.02)
    True
    """
    f, there = predicted[..., 0], (weight > 0).to(predicted.dtype)
    spread = _centred(f, there).square().sum(1, keepdim=True).div(there.sum(1, keepdim=True)).clamp(min=1e-12).sqrt()
    # ranks of predictions need a gradient, those of outcomes do not
    soft, exact = (_ranks(z, there, width) for z, width in ((f / spread, SOFTNESS), (y[..., 0], 0.0)))
    a, b = _centred(soft, there), _centred(exact, there)
    # a period of one firm, or of equal outcomes, has no correlation
    size = (a.square().sum(1) * b.square().sum(1)).clamp(min=1e-12).sqrt()
    return 1 - ((a * b).sum(1) / size).mean()


def sharpe_ratio(portfolio: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    r"""Return the mean of :math:`(1 - R_t)^2`, R the return of the portfolio whose weights are the predictions.

    Its minimum is the portfolio of maximum Sharpe ratio.

    References
    ----------
    Britten-Jones (1999), The sampling error in estimates of mean-variance efficient portfolio weights, Journal of Finance 54(2).
    Kelly, Kuznetsov, Malamud and Xu (2025), Artificial intelligence asset pricing models, NBER working paper 33351.
    """
    return (1 - LEVERAGE * portfolio_returns(portfolio, y, weight)).square().mean()


def portfolio_returns(portfolio: Tensor, y: Tensor, weight: Tensor) -> Tensor:
    """Return the mean of weight times return over the firms of each period, (B,)."""
    return (portfolio[..., 0] * y[..., 0] * weight).sum(1) / weight.sum(1).clamp(min=1e-12)


def _ranks(z: Tensor, there: Tensor, width: float) -> Tensor:
    """Return the number of rows below each row, (B, n), softened by a width; a tie counts half."""
    above = z[:, :, None] - z[:, None, :]
    beats = torch.sigmoid(above / width) if width else (above.sign() + 1) / 2
    return (beats * there[:, None, :]).sum(2)


def _centred(z: Tensor, there: Tensor) -> Tensor:
    mean = (z * there).sum(1, keepdim=True) / there.sum(1, keepdim=True).clamp(min=1)
    return (z - mean) * there
