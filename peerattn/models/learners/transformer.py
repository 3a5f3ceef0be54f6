"""A transformer over the firms of a period as a learner: an ensemble of seeds, trained by the one loop."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, vmap

from peerattn import nn
from peerattn.models.cross_section import NOBODY, CrossSection
from peerattn.models.learners.firm_tokens import ALL, Batch, hidden_folds
from peerattn.models.learners.firm_transformer import FirmTransformer, TransformerSpec
from peerattn.models.learners.transformer_losses import (
    SectionLoss,
    rank_correlation,
    sharpe_ratio,
    squared_error,
)
from peerattn.models.learners.variance_components import common_variance
from peerattn.training import train

FOLDS = 5  # of firms, each of which is predicted from the others' outcomes, where layers stack
HIDDEN = 1 / FOLDS  # share of the firms hidden in a step of training
LATER = 0.15  # share of the periods, the last ones, that tell when to stop
ROWS = 320  # focal rows of a step
QUERIES = 512  # focal rows of one period in a step, at most; keys are always all
FEWEST_STEPS = 60
ROWS_PER_STEP = 8  # training rows for which there is a step more
WARM = 0.4  # share of the steps when it goes on from where it stood
RATE = 0.02
DECAY = 0.01
CHECKS = 20  # validations in a fit


@dataclass(frozen=True)
class TransformerTraining:
    """How a transformer over firms is trained."""

    loss: str = "squared_error"
    n_seeds: int = 2
    max_steps: int = 400
    seed: int = 0
    dtype: str = "float32"
    device: str = "cpu"
    precision: str = "float32"
    progress: str | None = None

    @property
    def kind(self) -> torch.dtype:
        """The type of parameters in training."""
        return torch.float64 if self.dtype == "float64" else torch.float32


@dataclass(eq=False)
class TransformerLearner:
    """Learns what own models leave of the outcomes, from the firms of a period at once.

    Attributes
    ----------
    spec : TransformerSpec
        Its shape.
    training : TransformerTraining
    states : tuple of dict of ndarray
        Fitted parameters of every seed.
    scale : float
        What outputs are multiplied by: outcomes of training are divided by it.
    importance : dict of ndarray (n_heads,)
        Of the heads of every attention layer, by its name: seed, block.
    kept : dict of int
        Number of heads of the layers that were pruned, by name.
    """

    spec: TransformerSpec
    training: TransformerTraining = TransformerTraining()
    states: tuple[dict[str, np.ndarray], ...] = ()
    scale: float = 1.0
    importance: dict[str, np.ndarray] = field(default_factory=dict)
    kept: dict[str, int] = field(default_factory=dict)

    @property
    def folds(self) -> int:
        """The number of hidden folds: with one layer a firm's own outcome is left out by the mask alone."""
        return FOLDS if self.spec.outcomes and self.spec.n_layers > 1 else 1

    # ------------------------------------------------------------------ learning

    def fit(self, sections: Sequence[CrossSection], start: TransformerLearner | None = None) -> Self:
        """Fit to cross-sections whose outcomes are what own models leave; ``start`` was fitted to earlier periods."""
        generator = torch.Generator().manual_seed(self.training.seed)
        earlier, later = _split(sections)
        self.spec = replace(self.spec, n_characteristics=sections[0].peers.x.shape[1])
        modules = self._start(generator, start)
        self.scale = _spread(earlier)
        loss = self._loss_of(earlier)
        buckets = [self._bucket(group) for group in _matching(earlier)]
        held_out = [self._bucket(group) for group in _matching(later)] if later else []
        n_rows = sum(len(section.focal) for section in earlier)
        steps = min(self.training.max_steps, max(FEWEST_STEPS, n_rows // ROWS_PER_STEP))
        if start is not None:
            steps = max(1, round(WARM * steps))
        validate = partial(self._validation_loss, modules, loss, held_out) if held_out else None
        train(
            modules,
            lambda batch: self._step_loss(modules, loss, batch),
            self._batches(buckets, generator),
            max_steps=steps,
            learning_rate=RATE,
            weight_decay=DECAY,
            clip=math.sqrt(len(modules)),
            validate=validate,
            validate_every=max(1, steps // CHECKS),
            progress=self.training.progress,
            precision=self.training.precision,
        )
        self._keep(modules)
        if self.spec.attends:
            few = [
                batch.take(slice(0, max(1, QUERIES // batch.y.shape[1])))
                for batch in buckets
                if batch.y is not None
            ]
            found = nn.head_importance(modules, lambda batch: self._step_loss(modules, loss, batch), few)
            self.importance = {name: value.detach().double().cpu().numpy() for name, value in found.items()}
        return self

    def _start(self, generator: torch.Generator, start: TransformerLearner | None) -> torch.nn.ModuleList:
        if start is not None:
            modules = start.modules()
        else:
            modules = torch.nn.ModuleList(
                FirmTransformer(self.spec, generator) for _ in range(self.training.n_seeds)
            )
        return modules.to(device=self.training.device, dtype=self.training.kind).requires_grad_(True)

    def _keep(self, modules: torch.nn.ModuleList) -> None:
        self.states = tuple(
            {name: value.detach().double().cpu().numpy() for name, value in module.state_dict().items()}
            for module in modules
        )

    def _loss_of(self, sections: Sequence[CrossSection]) -> SectionLoss:
        if self.training.loss == "rank":
            return rank_correlation
        if self.training.loss == "sharpe":
            return sharpe_ratio
        # in a nowcast what is common to a period is learned from the peers
        common = 0.0 if self.spec.outcomes else common_variance(sections)
        return partial(squared_error, common=common)

    def _bucket(self, sections: Sequence[CrossSection]) -> Batch:
        batch = self._tensors(sections, self.training.kind, self.training.device)
        assert batch.y is not None
        return replace(batch, y=batch.y / self.scale)

    def _tensors(self, sections: Sequence[CrossSection], dtype: torch.dtype, device: str = "cpu") -> Batch:
        return Batch.of(sections, outcomes=self.spec.outcomes, dtype=dtype, device=device)

    def _batches(self, buckets: Sequence[Batch], generator: torch.Generator) -> Iterator[Batch]:
        """Yield batches of periods of alike size without end; of large periods some focal rows, drawn anew."""
        while True:
            steps = list[tuple[Batch, Tensor]]()
            for bucket in buckets:
                n_sections, n_rows = bucket.weight.shape
                order = torch.randperm(n_sections, generator=generator)
                steps += [(bucket, at) for at in order.split(max(1, ROWS // n_rows))]
            for k in torch.randperm(len(steps), generator=generator).tolist():
                bucket, at = steps[k]
                rows = torch.randperm(bucket.weight.shape[1], generator=generator)[:QUERIES].sort().values
                device = bucket.weight.device
                drawn = bucket.take(at.to(device), ALL if len(rows) < QUERIES else rows.to(device))
                drawn = self._hidden(drawn, generator)
                if drawn.weight.any():
                    yield drawn

    def _hidden(self, batch: Batch, generator: torch.Generator) -> Batch:
        """Return a batch in which the outcomes of some firms are hidden, and only these are predicted."""
        if self.folds == 1:
            return batch
        n = 2 + int(max(batch.focal.identity.max(), batch.peers.identity.max()))
        drawn = torch.rand(len(batch.weight), n, generator=generator).to(batch.weight.device) < HIDDEN
        of_focal, of_peers = (drawn.gather(1, rows.identity - NOBODY) for rows in (batch.focal, batch.peers))
        return replace(batch, peers=batch.peers.hide(of_peers), weight=batch.weight * of_focal)

    def _step_loss(self, modules: torch.nn.ModuleList, loss: SectionLoss, batch: Batch) -> Tensor:
        """Return the summed loss of all seeds."""
        assert batch.y is not None
        outputs: Iterable[Tensor] = (module(batch) for module in modules)
        if batch.y.device.type == "cuda":  # one launch for all seeds
            outputs = ensemble_outputs(modules, batch)
        return torch.stack([loss(each.to(batch.y.dtype), batch.y, batch.weight) for each in outputs]).sum()

    def _validation_loss(
        self, modules: torch.nn.ModuleList, loss: SectionLoss, held_out: Sequence[Batch]
    ) -> float:
        """Return the loss of the mean of all seeds on later periods."""
        same_each_time = torch.Generator().manual_seed(self.training.seed)
        total, size = 0.0, 0.0
        for batch in (self._hidden(bucket, same_each_time) for bucket in held_out):
            mean = torch.stack([module(batch) for module in modules]).mean(0)
            assert batch.y is not None
            n = float(batch.weight.sum())
            if n > 0:
                total += n * float(loss(mean, batch.y, batch.weight))
                size += n
        return total / max(size, 1.0)

    # ------------------------------------------------------------------ prediction

    def modules(self) -> torch.nn.ModuleList:
        """Return the fitted modules of all seeds, in float64."""
        with torch.device("meta"):  # nothing is drawn: the fitted state is assigned
            modules = torch.nn.ModuleList(
                FirmTransformer(self.spec, torch.Generator("cpu")) for _ in self.states
            )
        for name, n_heads in self.kept.items():
            _prune(modules, name, range(n_heads))
        for module, state in zip(modules, self.states, strict=True):
            module.load_state_dict({name: torch.tensor(value) for name, value in state.items()}, assign=True)
        return modules.requires_grad_(False)

    def with_heads(self, keep: Mapping[str, Sequence[int]]) -> TransformerLearner:
        """Return the learner with only these heads of these layers (named as in ``importance``); nothing is fitted again."""
        modules, importance = self.modules(), dict(self.importance)
        for name, heads in keep.items():
            _prune(modules, name, heads)
            importance[name] = importance[name][list(heads)]
        kept = self.kept | {name: len(heads) for name, heads in keep.items()}
        pruned = replace(self, importance=importance, kept=kept)
        pruned._keep(modules)
        return pruned

    def head_importance(self, sections: Sequence[CrossSection]) -> dict[str, np.ndarray]:
        """Return how much the squared error would change, to first order, were each head silenced, by layer.

        See :func:`peerattn.nn.head_importance`; a batch is a cross-section, whose focal outcomes are what own parts leave.
        """
        modules = self.modules()

        def loss(batch: Batch) -> Tensor:
            assert batch.y is not None
            mean = torch.stack([module(batch) for module in modules]).mean(0)
            return squared_error(self.scale * mean, batch.y, batch.weight)

        batches = (batch for section in sections for _, batch in self._passes(section, torch.float64))
        found = nn.head_importance(modules, loss, batches)
        return {name: value.numpy() for name, value in found.items()}

    @torch.no_grad()
    def predict(
        self, sections: Sequence[CrossSection], dtype: torch.dtype = torch.float64
    ) -> list[np.ndarray]:
        """Return the own part and what the network adds to every focal row, (n_focal, K) a cross-section."""
        modules = self.modules().to(dtype)
        found = []
        for section in sections:
            assert section.own is not None
            added = np.zeros((len(section.focal), self.spec.n_outputs))
            for at, batch in self._passes(section, dtype):
                added[at] = torch.stack([module(batch)[0] for module in modules]).mean(0).double().numpy()
            found.append(section.own[0] + self.scale * added)
        return found

    @torch.no_grad()
    def weights(
        self, section: CrossSection, rows: slice, layer: int = -1, head: tuple[int, int] | None = None
    ) -> np.ndarray:
        """Return the attention of a layer, (n_rows, n_peers): of all heads by importance, all seeds evenly; or of one.

        ``head`` is a seed and a head of this layer.
        """
        part = replace(section.take(rows, ALL), own_copies=False)
        layer = layer % self.spec.n_layers
        found = np.zeros((len(part.focal), len(section.peers)))
        modules: list[FirmTransformer] = list(self.modules()) if self.spec.attends else []  # type: ignore[arg-type]
        for seed, module in enumerate(modules):
            shares = self._shares(seed, layer) / len(modules)
            if head is not None:
                if seed != head[0]:
                    continue
                shares = np.eye(len(shares))[head[1]]
            for at, batch in self._passes(part, torch.float64):
                weights = module.weights(batch, layer)
                found[at] += np.tensordot(shares, weights[0].numpy(), axes=1)
        return found

    def derivative(self, section: CrossSection) -> partial[np.ndarray]:
        """Return what gives the weights of focal rows of a cross-section."""
        return partial(self.weights, section)

    def _shares(self, seed: int, layer: int) -> np.ndarray:
        """Return the share of every head of a layer in the network."""
        importance = self.importance[f"{seed}.blocks.{layer}.attention"]
        total = importance.sum()
        return importance / total if total > 0 else np.full(len(importance), 1 / max(1, len(importance)))

    def _passes(self, section: CrossSection, dtype: torch.dtype) -> Iterator[tuple[np.ndarray, Batch]]:
        """Yield focal rows and the cross-section with the outcomes of their fold hidden."""
        if self.folds == 1:
            yield np.arange(len(section.focal)), self._tensors([section], dtype)
            return
        of_focal, of_peers = hidden_folds(section, self.folds)
        for fold in np.unique(of_focal):
            at = np.flatnonzero(of_focal == fold)
            batch = self._tensors([section.take(at, ALL)], dtype)
            hidden = torch.from_numpy(of_peers == fold)[None]
            yield at, replace(batch, peers=batch.peers.hide(hidden))


def _prune(modules: torch.nn.ModuleList, name: str, heads: Sequence[int]) -> None:
    """Leave only these heads in the attention layer of this name."""
    parent, _, attribute = name.rpartition(".")
    layer = modules.get_submodule(name)
    assert isinstance(layer, nn.MultiheadAttention)
    pruned = nn.prune_heads(layer, torch.tensor(list(heads), dtype=torch.int64))
    setattr(modules.get_submodule(parent), attribute, pruned)


def ensemble_outputs(modules: torch.nn.ModuleList, batch: Batch) -> Tensor:
    """Return the outputs of modules of one shape, (E, B, n, K), computed with the seeds as a batch dimension."""
    named = [dict(module.named_parameters()) for module in modules]
    stacked = {name: torch.stack([each[name] for each in named]) for name in named[0]}
    return vmap(lambda parameters: functional_call(modules[0], parameters, (batch,)))(stacked)


def _split(sections: Sequence[CrossSection]) -> tuple[list[CrossSection], list[CrossSection]]:
    """Return cross-sections to learn from and later ones that tell when to stop; of one cross-section, some of its rows."""
    if len(sections) > 1:
        n_later = round(LATER * len(sections))
        return list(sections[: len(sections) - n_later]), list(sections[len(sections) - n_later :])
    (section,) = sections
    later = section.focal.checksums() % round(1 / LATER) == 0
    if not later.any() or later.all():
        return [section], []
    same = section.same_rows or section.own_copies  # a part of an array's rows shares no memory with itself
    standalone = section.period is None and same
    pool = ~later if standalone else ALL
    return [section.take(~later, pool)], [replace(section.take(later, pool), own_copies=False)]


def _spread(sections: Sequence[CrossSection]) -> float:
    """Return the standard deviation of the outcomes to learn, 1 where they are all equal."""
    y = np.concatenate([section.focal.y for section in sections if section.focal.y is not None])
    weight = np.concatenate([section.focal.loss_weights for section in sections])
    squares = ((y - np.average(y, axis=0, weights=weight)) ** 2).reshape(len(y), -1).mean(axis=1)
    return float(np.sqrt(np.average(squares, weights=weight))) or 1.0


def _matching(sections: Sequence[CrossSection]) -> list[list[CrossSection]]:
    """Return groups of cross-sections of alike size, the largest of each at most a quarter larger than the smallest."""
    sizes = np.array([max(len(section.focal), len(section.peers)) for section in sections])
    groups = list[list[CrossSection]]()
    smallest = 0
    for k in sizes.argsort(kind="stable"):
        if not groups or sizes[k] > 1.25 * smallest:
            groups.append([])
            smallest = int(sizes[k])
        groups[-1].append(sections[k])
    return groups
