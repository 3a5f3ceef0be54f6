"""The search for attention heads: many random starts at once, successively halved, their linear part solved exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from peerattn.models.attention.batches import CELLS_PER_STEP, Batch, SectionTensors, drawn
from peerattn.models.attention.heads import Settings, average_unseen_codes, with_heads
from peerattn.models.attention.own_model import row_keys
from peerattn.models.attention.peer_module import PeerModule, PeerSpec, admissible
from peerattn.models.pools import Section
from peerattn.processes import all_sum, completed, n_processes
from peerattn.training import train
from peerattn.training.checkpoint import optimised

STARTS, ETA = 12, 4  # heads that start in a bracket, and one in how many goes on to its second rung
STEPS = 60  # of a rung
ROWS = 2048  # focal rows of a step in the first rung; in the second twice as many, where large samples finish four times
# peak learning rates of Adam, with one cycle a rung: of starts, which at small rates stay where they are, and of found heads
RATE, FINE_RATE = 0.5, 0.15
BRACKETS = 3  # at most, of starts for each head: until the two best agree
# in a chain of layers, where brackets put the chain that is shorter by one; None: nowhere
PLACES = (1, 0, None)
AGREE = 0.95  # correlation of what two heads contribute from which they are the same
RIDGE = 1.0  # on each coefficient, in rows of unit variance
STRONGER = 10.0  # ridge on the scores of a sample of at most ROWS rows in which the usual one finds no head
HELD_OUT = 0.2  # share of the periods on which another head must show what it adds
MIN_CLUSTERS = 5  # held-out periods from which a standard error by period can be taken
ERRORS = 2.0  # standard errors by which a further head must lower the held-out loss
SMALL = 2**22  # pairs of focal row and peer, times heads, up to which L-BFGS optimises the sample as a whole
THINNED = (
    2**25
)  # pairs up to which all focal rows of a sample rank starts; of larger samples every so many-th row does
LBFGS_STEPS = 40


@dataclass(frozen=True)
class Search:
    """Heads that were found, and how.

    Attributes
    ----------
    module : PeerModule
        The found heads (at least one unless ``spec.n_heads`` is 0), optimised together on all sections, in float64, with own
        term and value vectors (or slopes) by ridge regression.
    gains : tuple of (float, float)
        For each found head, and for the one refused last: the fall of the held-out loss, as a share of the loss without
        heads, and its standard error (clustered by period).
    rivals : PeerModule
        The best starts of the first head, one head each, best on training periods first. Their value vectors are not set.
    rival_losses : ndarray
        Their held-out losses, as shares of the loss without heads.
    """

    module: PeerModule
    gains: tuple[tuple[float, float], ...]
    rivals: PeerModule
    rival_losses: np.ndarray


def search_heads(spec: PeerSpec, sections: Sequence[Section], settings: Settings, seed: int) -> PeerModule:
    """Return the module of :func:`find_heads`."""
    return find_heads(spec, sections, settings, seed).module


def find_heads(spec: PeerSpec, sections: Sequence[Section], settings: Settings, seed: int) -> Search:
    r"""Return up to ``spec.n_heads`` heads that lower the squared error of the targets ``focal.y`` of the sections.

    Given weights, the loss is a ridge regression in value vectors (or slopes), which is solved exactly; only scores are
    optimised (variable projection):

    .. math:: \min_\theta\; N \log \min_{a, b} \Big[\sum_t \| M_t (y_t - X_t a - V_t(\theta) b) \|^2
              + \lambda_b (\|a\|^2 + \|b\|^2)\Big] + \lambda_\theta \|\theta\|^2

    V are the columns of a head, the weighted means of its peers' features (or outcomes); X are own inputs and the columns of
    heads found before; M takes out the period's mean (``values="characteristics"``; of outcomes, only a constant is taken out,
    since the mean of all others is the period's mean less the own outcome). With ``own="none"`` nothing is taken out.

    For each head a bracket of ``STARTS`` random heads is optimised at once, and the best quarter goes on with twice the rows
    a step. Up to three brackets start, until the two best of all agree; for a further head the best that are left compete, too.
    It is kept if it lowers the squared error on the last fifth of the periods by two standard errors. Where a small sample shows
    no head that does, scores may be too free for it: the search is made again with a larger λ_θ, and the λ_θ whose first head has
    the smaller held-out error is taken.

    Heads of several layers are chains i ← j ← k, and most random chains find nothing: what j is told by its peers is seen
    through the firms that look to j alone. A chain therefore starts from the best heads that are shorter by one layer: in one
    bracket they are its last layers (the firm's peers are known, their peers are searched), in the next its first (the other
    way round), and in the last all layers are random; all three compete. Longer chains are taken if they lower the log of the
    shorter ones' squared error, period by period on the last fifth of the periods, by two standard errors.

    Parameters
    ----------
    spec : PeerSpec
        ``n_heads`` is the largest number of heads.
    sections : sequence of Section
        Focal rows carry targets, (n,) or (n, K), which need not be what peers carry.
    settings : Settings
    seed : int

    Returns
    -------
    Search

    References
    ----------
    Golub and Pereyra (1973), SIAM Journal on Numerical Analysis 10.
    Jamieson and Talwalkar (2016), Non-stochastic best arm identification, AISTATS.
    """
    generator = torch.Generator().manual_seed(seed)
    first = replace(spec, n_layers=1)
    training, held_out = (Sample(part, settings) for part in split(sections))
    best = _grown(first, training, held_out, generator)
    if training.n_rows <= ROWS and best.gains and not _is_worth(best.gains[0]):
        stronger = replace(settings, score_ridge=STRONGER)
        other, judged = (Sample(part.sections, stronger) for part in (training, held_out))
        again = _grown(first, other, judged, generator)
        if again.gains > best.gains:
            best, settings, training, held_out = again, stronger, other, judged
    for n_layers in range(2, spec.n_layers + 1):
        longer = _grown(replace(spec, n_layers=n_layers), training, held_out, generator)
        shorter, deeper = (one.settled(training, held_out, generator).log() for one in (best, longer))
        fall = shorter - deeper  # in logs: a period counts by the share of its loss that is saved
        if not fall.mean() > ERRORS * fall.std() / len(fall) ** 0.5:
            break
        best = longer
    found, everything = best.module, Sample(sections, settings)
    finish(found, everything, generator)
    average_unseen_codes(found, sections)
    solve(found.double(), Sample(sections, replace(settings, dtype=torch.float64)))
    return Search(found, best.gains, best.rivals.double(), best.rival_losses)


@dataclass(frozen=True)
class _Grown:
    """Heads of one number of layers, as training sections have them."""

    module: PeerModule
    gains: tuple[tuple[float, float], ...]
    rivals: PeerModule
    rival_losses: np.ndarray

    def settled(self, training: Sample, held_out: Sample, generator: torch.Generator) -> Tensor:
        """Return the held-out losses (T,) of the heads, optimised together."""
        finish(self.module, training, generator)
        return held_out_losses(self.module, None, training, held_out, joint=True)[0].clamp(min=1e-30)


def _grown(spec: PeerSpec, training: Sample, held_out: Sample, generator: torch.Generator) -> _Grown:
    """Return head after head, as long as each lowers the held-out loss."""
    found = rivals = _start(spec, 0, generator, training.settings)
    without = before = held_out_losses(found, None, training, held_out)[0]
    gains: list[tuple[float, float]] = []
    rival_losses, starts = np.zeros(0), None
    while found.spec.n_heads < spec.n_heads:
        starts = best_starts(spec, found, starts, training, generator)
        if not gains:
            losses = held_out_losses(starts, None, training, held_out).sum(1)
            rivals, rival_losses = starts, (losses / without.sum()).cpu().numpy()
        grown = beside(found, with_heads(starts, torch.arange(1)))
        gains.append(_gain(before - held_out_losses(grown, None, training, held_out, joint=True)[0], without))
        worth = _is_worth(gains[-1])
        if worth or not found.spec.n_heads:
            found = grown
        if not worth:
            break
        finish(found, training, generator)
        before = held_out_losses(found, None, training, held_out, joint=True)[0]
    return _Grown(found, tuple(gains), rivals, rival_losses)


def split(sections: Sequence[Section]) -> tuple[list[Section], list[Section]]:
    """Return training and held-out sections: the last periods are held out; where periods are few, a fifth of the firms."""
    n = round(len(sections) * HELD_OUT)
    if n >= MIN_CLUSTERS:
        return list(sections[:-n]), list(sections[-n:])
    one_in, n_blocks = round(1 / HELD_OUT), math.ceil(MIN_CLUSTERS / len(sections))
    training, held_out = [], []
    for section in sections:
        identity = section.focal.identity if section.period is not None else row_keys(section.focal)
        number = np.where(identity < 0, np.arange(len(identity)), identity)
        chosen = number % one_in == 0
        training.append(_focal(section, ~chosen))
        held_out += [_focal(section, chosen & (number // one_in % n_blocks == k)) for k in range(n_blocks)]
    training, held_out = ([s for s in part if len(s.focal)] for part in (training, held_out))
    return (training, held_out) if training and held_out else (list(sections), list(sections))


def _focal(section: Section, chosen: np.ndarray) -> Section:
    at = np.flatnonzero(chosen)
    return replace(section, at=at, focal=section.focal.take(at))


def _is_worth(gain: tuple[float, float]) -> bool:
    return gain[0] > ERRORS * gain[1]


def _gain(difference: Tensor, without: Tensor) -> tuple[float, float]:
    """Return the sum over held-out sections of a fall in loss, as a share, and its standard error."""
    share = difference / without.sum().clamp(min=1e-30)
    error = float(share.std()) * len(share) ** 0.5 if len(share) > 1 else math.inf
    return float(share.sum()), error


# ---------------------------------------------------------------------- samples


class Sample:
    """Cross-sections as tensors, in batches; small samples are made once."""

    def __init__(self, sections: Sequence[Section], settings: Settings) -> None:
        self.sections, self.settings = sections, settings
        self.tensors = SectionTensors(sections, settings.terms, settings.dtype, settings.device)
        self.n_rows = sum(float(weight.sum()) for weight in self.tensors.weight)
        self.cells = [len(s.focal) * len(s.peers) for s in sections]
        self.n_cells = sum(self.cells)
        self._whole: list[Batch] | None = None

    def whole(self, most: float = math.inf) -> Iterator[Batch]:
        """Yield all sections, in batches; where they have more than ``most`` pairs, with every so many-th focal row only."""
        if self._whole is None or self.n_cells > most:
            batches = self._batches(math.ceil(self.n_cells / most) if self.n_cells > most else 1)
            if self.n_cells > SMALL:
                yield from batches
                return
            self._whole = list(batches)
        yield from self._whole

    def _batches(self, every: int) -> Iterator[Batch]:
        group: list[int] = []
        for k, cells in enumerate(self.cells):
            if not self.sections[k].here:
                continue
            if group and (sum(self.cells[j] for j in group) + cells) / every > CELLS_PER_STEP:
                yield self._thinned(group, every)
                group = []
            group.append(k)
        yield self._thinned(group, every)

    def _thinned(self, group: list[int], every: int) -> Batch:
        focal = [np.arange(0, len(self.sections[k].focal), every) for k in group]
        return self.tensors.batch(group, None if every == 1 else focal)

    def drawn(self, generator: torch.Generator, times: int) -> Iterator[Batch]:
        """Yield batches of about so many times ROWS focal rows (CELLS_PER_STEP pairs at most) without end.

        Keys are always the full pool, so that the gradient is unbiased and no firm loses its peers.
        """
        if self.n_rows <= 1.5 * times * ROWS and self.n_cells <= CELLS_PER_STEP:
            (batch,) = self.whole()
            while True:
                yield batch
        n_peers = float(np.median([len(s.peers) for s in self.sections]))
        rows = max(1, times * min(ROWS, round(CELLS_PER_STEP / n_peers)))
        queries = min(self.settings.queries_per_step, rows)
        n_focal = float(np.median([min(len(s.focal), queries) for s in self.sections]))
        per_step = max(1, min(round(rows / n_focal), len(self.sections)))
        for group, chosen in drawn(self.sections, generator, per_step, queries):
            yield self.tensors.batch(group, chosen)


# ---------------------------------------------------------------------- starts


def _start(
    spec: PeerSpec,
    n_heads: int,
    generator: torch.Generator,
    settings: Settings,
    like: PeerModule | None = None,
) -> PeerModule:
    """Return heads at their random start; what heads share is taken from ``like`` and stays fixed."""
    module = PeerModule(replace(spec, n_heads=n_heads), generator, settings.dtype).to(settings.device)
    if like is not None:
        known = dict(like.named_parameters())
        for name, parameter in _shared(module).items():
            parameter.data.copy_(known[name])
            parameter.requires_grad_(False)
    return module


def _scores(module: PeerModule) -> dict[str, torch.nn.Parameter]:
    """Return what scores depend on: all parameters but those in which predictions are linear."""
    linear = ("value.weight", "slope", "own_slope", "intercept")
    return {name: parameter for name, parameter in module.named_parameters() if name not in linear}


def _shared(module: PeerModule) -> dict[str, torch.nn.Parameter]:
    """Return what all heads share: embeddings of codes."""
    of_heads = module.per_head()
    return {name: parameter for name, parameter in _scores(module).items() if name not in of_heads}


def beside(found: PeerModule, more: PeerModule) -> PeerModule:
    """Return one module with the heads of both; what heads share is the second's."""
    both = with_heads(more, torch.arange(more.spec.n_heads))
    both.spec = replace(more.spec, n_heads=found.spec.n_heads + more.spec.n_heads)
    theirs = more.per_head()
    both.replace({name: torch.cat([mine, theirs[name]]) for name, mine in found.per_head().items()})
    return both


def best_starts(
    spec: PeerSpec,
    found: PeerModule,
    left: PeerModule | None,
    training: Sample,
    generator: torch.Generator,
) -> PeerModule:
    """Return the best of many starts beside the heads found before, best first; those left from the last search compete."""
    best, shorter = left, None
    places: Sequence[int | None] = [None] * BRACKETS
    if spec.n_layers > 1:
        one_less = replace(spec, n_layers=spec.n_layers - 1)
        places = PLACES if left is None else PLACES[:1]
        shorter = best_starts(one_less, found, None, training, generator)
    n_starts = STARTS * spec.n_layers
    for place in places:
        # what heads share is learned with the first of them
        like = found if found.spec.n_heads else best or shorter
        starts = _start(spec, n_starts, generator, training.settings, like)
        if place is not None and shorter is not None:
            _put(shorter, starts, place)
        descend(starts, found, training, generator, 1, RATE)
        starts, _ = _ranked(starts, found, training, n_starts // ETA)
        descend(starts, found, training, generator, 2, RATE)
        best, agree = _ranked(
            starts if best is None else beside(best, starts), found, training, STARTS // ETA
        )
        if agree and shorter is None:  # chains may agree on one layer, and both be wrong on the other
            break
    assert best is not None
    return best


@torch.no_grad()
def _put(shorter: PeerModule, starts: PeerModule, place: int) -> None:
    """Put chains shorter by one layer into the starts, in turn: their first layer as layer ``place``, 0 or 1, of a start.

    A layer sees what its predecessors add behind the inputs, so that what it looked for so far stands first.
    """
    H, S = shorter.n_heads, starts.n_heads
    layers = [*starts.earlier(), starts][place:]
    for mine, theirs in zip(layers, [*shorter.earlier(), shorter], strict=False):
        known = dict(theirs.named_parameters())
        for name, parameter in mine.named_parameters():
            if name in ("query.weight", "query.bias", "key.weight", "combine", "prior_strength"):
                each = known[name].unflatten(0, (H, -1))
                values = each.repeat(S // H, *[1] * (each.dim() - 1)).flatten(0, 1)
                parameter[:, : values.shape[1]].copy_(values) if values.dim() > 1 else parameter.copy_(values)


def _ranked(starts: PeerModule, found: PeerModule, training: Sample, n_kept: int) -> tuple[PeerModule, bool]:
    """Return the best starts, best first, and whether the two best of them agree."""
    gram, (_, n_targets) = _total(products(starts, found, training))
    order = _losses(gram, ridge_solution(gram, n_targets, RIDGE)).argsort().cpu()
    best = with_heads(starts, order[:n_kept])
    return best, _correlation(with_heads(best, torch.arange(2)), found, training) > AGREE


def _correlation(two: PeerModule, found: PeerModule, training: Sample) -> float:
    """Return the correlation of what two heads contribute, each by itself, net of what is partialled out."""
    gram, (n_own, n_targets) = _total(products(two, found, training, joint=True))
    own = gram[0, :n_own, :n_own] + 1e-9 * torch.eye(n_own, dtype=gram.dtype, device=gram.device)
    net = gram[0, n_own:, n_own:] - gram[0, n_own:, :n_own] @ torch.linalg.solve(own, gram[0, :n_own, n_own:])
    a, b = torch.arange(len(net) - n_targets, device=net.device).view(2, -1)
    y = torch.arange(len(net) - n_targets, len(net), device=net.device)
    first, second = (ridge_solution(net[k := torch.cat([at, y])][:, k], n_targets, RIDGE) for at in (a, b))
    both, one, other = (
        float((left * (net[i][:, j] @ right)).sum())
        for left, i, right, j in ((first, a, second, b), (first, a, first, a), (second, b, second, b))
    )
    return both / max(math.sqrt(one * other), 1e-30)


def descend(
    module: PeerModule,
    found: PeerModule | None,
    sample: Sample,
    generator: torch.Generator,
    times: int,
    rate: float,
    joint: bool = False,
) -> None:
    """Optimise the scores of every head by itself, or of all jointly, by Adam, with so many times ROWS a step."""
    train(
        _scores(module).values(),
        lambda batch: projected_loss(module, found, batch, joint, sample).sum(),
        sample.drawn(generator, times),
        max_steps=STEPS,
        learning_rate=rate,
        clip=None,
        checkpoint=sample.settings.checkpoint,
        generators=[generator],
    )


def finish(module: PeerModule, sample: Sample, generator: torch.Generator) -> None:
    """Optimise the scores of all heads jointly: by L-BFGS on the whole sample, or by Adam where that is large."""
    if not module.spec.n_heads:
        return
    module.requires_grad_(True)
    if sample.n_cells * module.spec.n_heads > SMALL:
        return descend(module, None, sample, generator, 4, FINE_RATE, joint=True)
    scores = list(_scores(module).values())
    optimizer = torch.optim.LBFGS(
        scores,
        max_iter=LBFGS_STEPS,
        line_search_fn="strong_wolfe",
        tolerance_change=1e-6,
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        gram, (n_own, n_targets) = _total(products(module, None, sample, joint=True))
        b = ridge_solution(gram, n_targets, RIDGE)
        squares = (_losses(gram, b)[0] + RIDGE * b.square().sum()).clamp(min=1e-30)
        loss = penalty(module, sample).sum()
        (loss / n_processes()).backward()
        for batch in sample.whole():
            own, mixed, y = (z.flatten(-3, -2) for z in parts(module, None, batch, joint=True))
            rest = y - own @ b[:, :n_own].to(y) - mixed @ b[:, n_own:].to(y)
            (rest.square().sum() / squares).backward()
        for score in scores:
            score.grad = all_sum(score.grad)
        return loss.detach() + squares.log()

    optimised(sample.settings.checkpoint, scores, lambda: optimizer.step(closure))


# ---------------------------------------------------------------------- least squares given the weights


def columns(module: PeerModule, batch: Batch) -> Tensor:
    """Return the columns in which each head's contribution is linear, (B, n_focal, H, width)."""
    if not module.spec.n_heads:
        width = module.spec.n_outputs if module.spec.values == "outcomes" else module.spec.width
        return batch.focal.x.new_zeros(*batch.focal.x.shape[:2], 0, width)
    looking, shown = module.features(batch.focal, batch.peers, batch.pairs)
    if module.spec.values == "outcomes":
        value = module._value(shown, batch.peers)
    else:
        value = module.per_head_features(shown)
    may = admissible(batch.focal, batch.peers)
    return module.mean(looking, shown, may, batch.pairs, value).transpose(1, 2)


def parts(
    module: PeerModule, found: PeerModule | None, batch: Batch, joint: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return what is partialled out (B, n, q), heads' columns (H, B, n, width), and targets (B, n, K) of a batch.

    With an own term, all are net of their period's mean; for outcomes as values, a constant is partialled out instead. Rows
    are multiplied by the root of their weight. ``joint``: the columns of all heads make up one regression, H = 1. A head has
    one slope on outcomes for all K targets, which then make up n K rows.
    """
    y = batch.y if batch.y.ndim == 3 else batch.y[..., None]
    K, outcomes = y.shape[-1], module.spec.values == "outcomes"
    linear = module.spec.own == "linear"
    inputs = module.inputs(batch.focal).detach()
    own = torch.cat([inputs, torch.ones_like(inputs[..., :1])], dim=-1) if linear else inputs[..., :0]
    mixed = columns(module, batch)  # (B, n, H, width)
    with torch.no_grad():
        known = mixed[:, :, :0] if found is None else columns(found, batch)
    weight = batch.weight[..., None]  # (B, n, 1)
    if outcomes and K > 1:
        each = torch.eye(K, dtype=y.dtype, device=y.device)
        own = (own[:, :, None, :, None] * each[:, None]).flatten(3).flatten(1, 2)
        known, mixed = (z.transpose(2, 3).flatten(1, 2)[..., None] for z in (known, mixed))
        y, weight = y.flatten(1)[..., None], weight.repeat_interleave(K, dim=1)
    mixed = mixed.flatten(2)[None] if joint else mixed.permute(2, 0, 1, 3)
    root, total = weight.sqrt(), weight.sum(1, keepdim=True).clamp(min=1e-12)

    def net(z: Tensor) -> Tensor:
        if linear and not outcomes:
            z = z - (z * weight).sum(-2, keepdim=True) / total
        return z * root

    return net(torch.cat([own, known.flatten(2)], dim=-1)), net(mixed), net(y)


def ridge_solution(gram: Tensor, n_targets: int, ridge: float) -> Tensor:
    """Return ridge coefficients (..., columns, K), given products of columns and targets, the targets last."""
    n = gram.shape[-1] - n_targets
    identity = torch.eye(n, dtype=gram.dtype, device=gram.device)
    return torch.linalg.solve(gram[..., :n, :n] + ridge * identity, gram[..., :n, n:])


def _losses(gram: Tensor, b: Tensor) -> Tensor:
    """Return squared errors (...,) of the coefficients b, given products of columns and targets."""
    K = b.shape[-1]
    minus_one = -torch.eye(K, dtype=b.dtype, device=b.device).expand(*b.shape[:-2], K, K)
    full = torch.cat([b, minus_one], dim=-2)
    return (full * (gram @ full)).sum((-2, -1))


def _products(own: Tensor, mixed: Tensor, y: Tensor) -> Tensor:
    """Return products of own columns, each head's columns and targets over rows, (H, ..., c, c)."""
    H = len(mixed)
    rows = torch.cat([own.expand(H, *own.shape), mixed, y.expand(H, *y.shape)], dim=-1)
    return rows.mT @ rows


def penalty(module: PeerModule, sample: Sample) -> Tensor:
    """Return ``λ ‖θ‖² / N`` of the scores of each head, (H,); what heads share counts in equal parts."""
    scores, H = _scores(module), module.spec.n_heads
    of_heads = [scores[name].reshape(H, -1) for name in module.per_head() if name in scores]
    squares = torch.stack([parameter.square().sum(1) for parameter in of_heads]).sum(0)
    for parameter in _shared(module).values():
        squares = squares + parameter.square().sum() / len(squares)
    return sample.settings.score_ridge / sample.n_rows * squares


def projected_loss(
    module: PeerModule, found: PeerModule | None, batch: Batch, joint: bool, sample: Sample
) -> Tensor:
    """Return the log of each head's squared error after least squares over all processes, plus its penalty, (H,).

    At the solution the coefficients' own derivative vanishes, so that they count as constants.
    """
    own, mixed, y = (z.flatten(-3, -2) for z in parts(module, found, batch, joint))
    with torch.no_grad():
        ridge = RIDGE * all_sum(float(batch.weight.sum())) / sample.n_rows
        b = ridge_solution(all_sum(_products(own, mixed, y)), y.shape[-1], ridge)
        rest = y - own @ b[:, : own.shape[-1]]
    rest = rest - mixed @ b[:, own.shape[-1] :]
    squares = all_sum(rest.square().sum((1, 2))) + ridge * b.square().sum((1, 2))
    total = all_sum(y.square().sum()).clamp(min=1e-30)
    return (squares / total).clamp(min=1e-12).log() + penalty(module, sample)


@torch.no_grad()
def products(
    module: PeerModule, found: PeerModule | None, sample: Sample, joint: bool = False, most: float = THINNED
) -> Iterator[tuple[Tensor, tuple[int, int]]]:
    """Yield products of some sections (H, B, c, c), in float64, and the numbers of own columns and of targets."""
    for batch in sample.whole(most):
        own, mixed, y = (z.double() for z in parts(module, found, batch, joint))
        yield _products(own, mixed, y), (own.shape[-1], y.shape[-1])


def _total(found: Iterator[tuple[Tensor, tuple[int, int]]]) -> tuple[Tensor, tuple[int, int]]:
    grams, shapes = zip(*((gram.sum(1), shape) for gram, shape in found), strict=True)
    return all_sum(torch.stack(grams).sum(0)), shapes[0]


def held_out_losses(
    module: PeerModule, found: PeerModule | None, training: Sample, held_out: Sample, joint: bool = False
) -> Tensor:
    """Return each head's squared error in every held-out section, (H, T): least squares are of the training sections."""
    joint = joint or not module.spec.n_heads
    gram, (_, n_targets) = _total(products(module, found, training, joint))
    b = ridge_solution(gram, n_targets, RIDGE)[:, None]
    losses = torch.cat([_losses(gram, b) for gram, _ in products(module, found, held_out, joint)], dim=1)
    mine = iter(losses.unbind(1))
    return torch.stack(completed([next(mine) if s.here else None for s in held_out.sections]), dim=1)


@torch.no_grad()
def solve(module: PeerModule, sample: Sample) -> None:
    """Set own term and value vectors (or slopes) by ridge regression over all sections."""
    gram, (n_own, n_targets) = _total(products(module, None, sample, joint=True, most=math.inf))
    b = ridge_solution(gram, n_targets, RIDGE)[0]
    if module.spec.n_heads:
        module.head_values.copy_(b[n_own:].reshape(module.head_values.shape))
    if module.spec.own == "linear":
        module.own_slope.copy_(b[:n_own].reshape(module.spec.n_inputs + 1, -1)[:-1])
        module.intercept.zero_()
        rest, total = torch.zeros_like(module.intercept), 0.0
        for batch in sample.whole():
            error = batch.y.view(*batch.y.shape[:2], -1) - module(batch.focal, batch.peers, batch.pairs)[0]
            rest, total = (
                rest + (error * batch.weight[..., None]).sum((0, 1)),
                total + float(batch.weight.sum()),
            )
        module.intercept.copy_(all_sum(rest) / all_sum(total))
