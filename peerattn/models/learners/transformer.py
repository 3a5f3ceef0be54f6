"""A transformer over the firms of a period as a learner: an ensemble of seeds, trained by the one loop."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import numpy as np
import torch
from torch import Tensor
from torch.func import functional_call, vmap

from peerattn import nn
from peerattn.models.cross_section import NO_IDENTITY, CrossSection, known_before
from peerattn.models.learners.batches import Batch, Sample
from peerattn.models.learners.firm_transformer import FirmTransformer, TransformerSpec, hidden_folds
from peerattn.models.learners.linear import stacked_rows
from peerattn.models.learners.transformer_losses import SectionLoss, rank_correlation, sharpe_ratio, squared_error
from peerattn.models.learners.variance_components import common_variance
from peerattn.training import train

FOLDS = 5  # of firms, each of which is predicted from the others' outcomes, where layers stack
HIDDEN = 1 / FOLDS  # share of the firms hidden in a step of training
LATER = 0.15  # share of the periods, the last ones, that determine when to stop
ROWS = 320  # focal rows of a step
QUERIES = 512  # focal rows of one period in a step, at most; keys are always all
FEWEST_STEPS = 60
ROWS_PER_STEP = 8  # training rows for which there is a step more
WARM = 0.4  # share of the steps when it goes on from a fit to earlier periods
RATE = 0.02
DECAY = 0.01
CHECKS = 20  # validations in a fit


@dataclass(frozen=True, kw_only=True)
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
    purge: int = 0  # periods before the last ones that are not learned from, as their outcomes are not known by then

    @property
    def kind(self) -> torch.dtype:
        """The type of parameters in training."""
        return getattr(torch, self.dtype)


@dataclass(eq=False)
class TransformerLearner:
    """Learns what own models leave of the outcomes, from the firms of a period at once.

    Attributes
    ----------
    spec : TransformerSpec
        Its shape.
    training : TransformerTraining
    state : dict of ndarray
        Fitted parameters of every seed, by seed and name.
    scale : float
        What outputs are multiplied by: outcomes of training are divided by it.
    """

    spec: TransformerSpec
    training: TransformerTraining = TransformerTraining()
    state: dict[str, np.ndarray] = field(default_factory=dict)
    scale: float = 1.0

    @property
    def hides(self) -> bool:
        """Whether folds of the outcomes are hidden: with one layer a firm's own one is left out by the mask alone."""
        return self.spec.outcomes and self.spec.n_layers > 1

    # ------------------------------------------------------------------ learning

    def fit(self, sections: Sequence[CrossSection], start: Self | None = None) -> Self:
        """Fit to cross-sections whose outcomes are what own models leave; ``start`` was fitted to earlier periods."""
        # the number of columns is known only here
        self.spec = replace(self.spec, n_characteristics=sections[0].peers.x.shape[1])
        generator = torch.Generator().manual_seed(self.training.seed)
        modules = self._new(generator) if start is None else start.modules()
        modules.to(device=self.training.device, dtype=self.training.kind).requires_grad_(True)
        earlier, later = self._split(sections)
        loss = self._loss_of(earlier)
        validate = None
        if later:
            batches = [sample.batch(range(len(sample.sections))) for sample in self._of_alike_size(later)]
            validate = partial(self._validation_loss, modules, loss, batches)
        y = stacked_rows(earlier).outcomes
        self.scale = float(y.std()) or 1.0
        steps = min(self.training.max_steps, max(FEWEST_STEPS, len(y) // ROWS_PER_STEP))
        if start is not None:  # it stands near its end already
            steps = max(1, round(WARM * steps))
        train(
            modules,
            lambda batch: self._losses(outputs_of(modules, batch), batch, loss).sum(),
            self._steps(self._of_alike_size(earlier), generator),
            max_steps=steps,
            learning_rate=RATE,
            weight_decay=DECAY,
            clip=math.sqrt(len(modules)),
            validate=validate,
            validate_every=max(1, steps // CHECKS),
            progress=self.training.progress,
            precision=self.training.precision,
        )
        self.keep(modules)
        return self

    def _split(self, sections: Sequence[CrossSection]) -> tuple[list[CrossSection], list[CrossSection]]:
        """Return cross-sections to learn from, of outcomes known by the later ones, and these; of too few all, and none."""
        start = len(sections) - round(LATER * len(sections))
        later = list(sections[start:])
        # of one cross-section there are no later periods to stop by
        earlier = later and known_before(sections, start, self.training.purge)
        if not earlier:
            return list(sections), []
        return earlier, later

    def _new(self, generator: torch.Generator) -> torch.nn.ModuleList:
        return torch.nn.ModuleList(FirmTransformer(self.spec, generator) for _ in range(self.training.n_seeds))

    def _loss_of(self, sections: Sequence[CrossSection]) -> SectionLoss:
        if self.training.loss == "rank":
            return rank_correlation
        if self.training.loss == "sharpe":
            return sharpe_ratio
        if self.spec.outcomes:  # what is common to a period is learned from the peers
            return squared_error
        return partial(squared_error, common=common_variance(sections))

    def _losses(self, outputs: Tensor, batch: Batch, loss: SectionLoss) -> Tensor:
        """Return the loss of outputs (E, B, n, K), (E,)."""
        y = batch.focal.outcomes / self.scale
        return torch.stack([loss(each.to(y.dtype), y, batch.weight) for each in outputs])

    def _sample(self, sections: Sequence[CrossSection], dtype: torch.dtype, device: str = "cpu") -> Sample:
        if not self.spec.attends:  # one peer that nobody may attend to replaces all
            nobody = [replace(s.take(slice(None), slice(0, 1)), own_copies=False) for s in sections]
            sections = [replace(s, attendable=np.zeros(len(s.peers), dtype=bool)) for s in nobody]
        return Sample(sections, dtype=dtype, device=device)

    def _of_alike_size(self, sections: Sequence[CrossSection]) -> list[Sample]:
        """Return cross-sections of alike size together, the largest at most a quarter larger than the smallest."""
        sizes = np.array([max(len(section.focal), len(section.peers)) for section in sections])
        bins = np.floor(np.log(sizes) / np.log(1.25))
        groups = ([sections[k] for k in np.flatnonzero(bins == each).tolist()] for each in np.unique(bins))
        return [self._sample(group, self.training.kind, self.training.device) for group in groups]

    def _steps(self, samples: Sequence[Sample], generator: torch.Generator) -> Iterator[Batch]:
        """Yield some cross-sections of alike size without end; of large ones some focal rows, drawn anew."""
        while True:
            steps = list[tuple[Sample, list[int]]]()
            for sample in samples:
                order = torch.randperm(len(sample.sections), generator=generator)
                steps += [(sample, at.tolist()) for at in order.split(max(1, ROWS // int(sample.n_focal.max())))]
            for k in torch.randperm(len(steps), generator=generator).tolist():
                sample, group = steps[k]
                rows = torch.randperm(int(sample.n_focal.max()), generator=generator)[:QUERIES].sort().values.numpy()
                batch = sample.batch(group, [rows[rows < n] for n in sample.n_focal[group]])
                drawn = self._hidden(batch, generator)
                if drawn.weight.any():
                    yield drawn

    def _hidden(self, batch: Batch, generator: torch.Generator) -> Batch:
        """Return a batch in which the outcomes of some firms are hidden, and only these are predicted."""
        if not self.hides:
            return batch
        n = 2 + int(max(batch.focal.identity.max(), batch.peers.identity.max()))
        drawn = torch.rand(len(batch.weight), n, generator=generator).to(batch.weight.device) < HIDDEN
        of_focal, of_peers = (drawn.gather(1, rows.identity - NO_IDENTITY) for rows in (batch.focal, batch.peers))
        return replace(batch, peers=batch.peers.hide(of_peers), weight=batch.weight * of_focal)

    def _validation_loss(self, modules: torch.nn.ModuleList, loss: SectionLoss, later: Sequence[Batch]) -> float:
        """Return the loss of the mean of all seeds on later periods."""
        same_each_time = torch.Generator().manual_seed(self.training.seed)
        hidden = [self._hidden(batch, same_each_time) for batch in later]
        counted = [batch for batch in hidden if batch.weight.any()]
        if not counted:
            return 0.0
        found = [float(self._losses(outputs_of(modules, b).mean(0)[None], b, loss)) for b in counted]
        return float(np.average(found, weights=[float(b.weight.sum()) for b in counted]))

    # ------------------------------------------------------------------ prediction

    def modules(self) -> torch.nn.ModuleList:
        """Return the fitted modules of all seeds, in float64."""
        with torch.device("meta"):  # nothing is drawn: the fitted state is assigned
            modules = self._new(torch.Generator("cpu"))
        nn.load_pruned(modules, {name: torch.tensor(value) for name, value in self.state.items()})
        return modules.requires_grad_(False)

    def keep(self, modules: torch.nn.Module) -> None:
        """Keep the parameters of modules as the fitted ones."""
        self.state = {name: value.detach().double().cpu().numpy() for name, value in modules.state_dict().items()}

    def outputs(self, modules: torch.nn.ModuleList, section: CrossSection, dtype: torch.dtype = torch.float64) -> Tensor:
        """Return what the mean of the modules adds to the own part of every focal row, (n_focal, K)."""
        found = torch.zeros(len(section.focal), self.spec.n_outputs, dtype=torch.float64)
        for at, batch in self._passes(section, slice(None), dtype):
            found[at] = self.scale * outputs_of(modules, batch).mean(0)[0].double()
        return found

    @torch.no_grad()
    def predict(self, sections: Sequence[CrossSection], dtype: torch.dtype = torch.float64) -> list[np.ndarray]:
        """Return the own part and what the network adds to every focal row, (n_focal, K) a cross-section."""
        modules = self.modules().to(dtype)
        return [s.own_term + self.outputs(modules, s, dtype).numpy() for s in sections]

    @torch.no_grad()
    def weights(self, section: CrossSection, rows: slice, layer: int = -1, head: tuple[int, int] | None = None) -> np.ndarray:
        """Return the attention of a layer, (n_rows, n_peers): the mean over seeds and heads, or of one seed's head."""
        found = np.zeros((len(section.focal.identity[rows]), len(section.peers)))
        if not self.spec.attends:
            return found
        modules = [module for module in self.modules() if isinstance(module, FirmTransformer)]
        of_heads = slice(None)
        if head is not None:
            modules = [modules[head[0]]]
            of_heads = slice(head[1], head[1] + 1)
        for at, batch in self._passes(section, rows, torch.float64):
            n_heads = 0  # seeds that were pruned differ in it
            for module in modules:
                weights = module.weights(batch, layer)[0, of_heads].numpy()
                found[at] += weights.sum(0)
                n_heads += len(weights)
            found[at] /= max(1, n_heads)
        return found

    def derivative(self, section: CrossSection) -> partial[np.ndarray]:
        """Return what gives the weights of focal rows of a cross-section."""
        return partial(self.weights, section)

    def _passes(self, section: CrossSection, rows: slice, dtype: torch.dtype) -> Iterator[tuple[np.ndarray, Batch]]:
        """Yield numbers of these focal rows, and the cross-section of them with the outcomes of their fold hidden."""
        sample = self._sample([section], dtype)
        wanted = np.arange(len(section.focal))[rows]
        if not self.hides:
            yield np.arange(len(wanted)), sample.batch([0], [wanted])
            return
        of_focal, of_peers = hidden_folds(section, FOLDS)
        for fold in np.unique(of_focal[wanted]):
            at = np.flatnonzero(of_focal[wanted] == fold)
            batch = sample.batch([0], [wanted[at]])
            yield at, replace(batch, peers=batch.peers.hide(torch.from_numpy(of_peers == fold)[None]))


def outputs_of(modules: torch.nn.ModuleList, batch: Batch) -> Tensor:
    """Return the outputs of modules of one shape, (E, B, n, K)."""
    if batch.weight.device.type == "cpu":
        return torch.stack([module(batch) for module in modules])
    return ensemble_outputs(modules, batch)


def ensemble_outputs(modules: torch.nn.ModuleList, batch: Batch) -> Tensor:
    """Return the same with the seeds as a batch dimension: on a GPU one launch for all."""
    named = [dict(module.named_parameters()) for module in modules]
    stacked = {name: torch.stack([each[name] for each in named]) for name in named[0]}
    return vmap(lambda parameters: functional_call(modules[0], parameters, (batch,)))(stacked)
