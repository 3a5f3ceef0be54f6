"""The ridge across the firms of a period, as a covariance: what peers' outcomes predict without any own model."""

import math
from collections.abc import Sequence

import numpy as np

from peerattn.models.cross_section import CrossSection
from peerattn.models.learners.covariance.covariance import Covariance, with_outcomes
from peerattn.models.learners.covariance.fit import start_parameters
from peerattn.models.learners.covariance.kernel import SLOPES
from peerattn.models.learners.linear import Bounds
from peerattn.models.learners.nonlinear import with_levels
from peerattn.models.ridge import ALPHAS, leave_one_out_errors

# log variances: of a kernel that is absent, and of the level of a period, which is not penalised
NONE = -60.0
FLAT = 7.0
ROWS = 30_000  # that choose the penalty: of more, every k-th period


def fit_ridge_covariance(sections: Sequence[CrossSection], code_levels: Sequence[int]) -> Covariance:
    r"""Return the covariance of a ridge regression of each period's outcomes on characteristics and codes.

    .. math:: K_{ij} = s + \lambda^{-1} \bigl(z_i z_j' + \textstyle\sum_c 1[c_i = c_j]\bigr) + 1[i = j]

    with a flat level s. Its leave-one-out predictions are those of :class:`~peerattn.models.CrossSectionalRidge`, and λ is the
    penalty of least leave-one-out error over the training periods (of more than 30,000 rows, over every k-th). Nothing else is
    learned, so that it depends on no seed.

    Parameters
    ----------
    sections : sequence of CrossSection
        Training periods, with what own models leave of the outcomes, and their terms.
    code_levels : sequence of int
        Number of levels of each code.
    """
    total = np.zeros(len(ALPHAS))
    every = math.ceil(sum(len(section.focal) for section in sections) / ROWS) or 1
    for section in map(with_outcomes, sections[::every]):
        focal = section.focal
        if len(focal) > 1 and focal.y is not None:
            total += leave_one_out_errors(with_levels(focal, code_levels), focal.y, focal.loss_weight)[0]
    alpha = float(ALPHAS[int(np.argmin(total))])
    p = sections[0].peers.x.shape[1]
    bounds = Bounds.of(section.peers.x for section in sections)
    return linear_covariance(np.full(p, 1 / alpha), np.full(len(code_levels), 1 / alpha), bounds)


def linear_covariance(slopes: np.ndarray, codes: np.ndarray, bounds: Bounds) -> Covariance:
    """Return the covariance of a flat level, slopes (p,) and effects of codes (c,) of these variances, those of noise being 1."""
    start = start_parameters(len(slopes), len(codes), past=False)
    # all other kernels are absent
    parameters = {name: np.full(value.shape, NONE) for name, value in start.items()}
    parameters |= {name: np.zeros(parameters[name].shape) for name in parameters if name in SLOPES}
    parameters["slope"] = _log(slopes)
    parameters["level"] = np.append(FLAT, _log(codes))
    return Covariance(parameters, bounds, of_outcomes=True)


def _log(variances: np.ndarray) -> np.ndarray:
    return np.log(np.maximum(variances, np.exp(NONE)))
