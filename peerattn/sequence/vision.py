"""Classes of images, by attention between their patches."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, check_is_fitted
from torch import Generator, Tensor, nn

from peerattn.exceptions import expect, reworded_values
from peerattn.nn import LearnedPositions2d, linear, normal
from peerattn.scaling import centre_and_spread
from peerattn.sequence.attention_map import AttentionMap
from peerattn.sequence.base import Classifies, SequenceEstimator, StackArguments


class VisionTransformer(nn.Module):
    r"""Patches as rows, a summary row before them, blocks, and class scores from the summary row.

    .. math:: z = [\text{cls};\; W x_1 + b + p_1;\; \ldots;\; W x_P + b + p_P], \qquad
              \text{scores} = V\, \text{blocks}(z)_0 + c
    """

    def __init__(self, *parts: Any):
        super().__init__()
        self.embed, self.summary, self.positions, self.blocks, self.head = parts

    def forward(self, patches: Tensor) -> Tensor:
        """Return class scores (n, n_classes) of patches (n, n_patches, d_patch), row by row of the grid."""
        rows = self.embed(patches) + self.positions()
        # the class is read from a row of its own, which attends to all patches
        rows = torch.cat([self.summary.expand(len(rows), 1, -1), rows], dim=1)  # (n, 1 + n_patches, d_model)
        return self.head(self.blocks(rows)[:, 0])


@dataclass(eq=False, repr=False, kw_only=True)
class VisionTransformerClassifier(Classifies, StackArguments, SequenceEstimator[VisionTransformer]):
    r"""Classify images by a transformer over their patches.

    .. math:: P(y = c) = \operatorname{softmax}_c\big(V\, \text{blocks}([\text{cls}; W x_1 + p_1; \ldots; W x_P + p_P])_0\big)

    Parameters
    ----------
    patch : int, default 4
        Side of the square patches; it divides height and width.
    d_model, n_heads, n_layers, dropout
        Sizes of the blocks.
    shift : int, default 1
        Each image of a training batch is moved at random by up to this many pixels, up, down and sideways, the border
        filled with its darkest value; 0: none.
    learning_rate : float, default 1e-3
    weight_decay : float, default 0.05
    n_epochs : int, default 30
        Passes over the images.
    batch_size : int, default 64
    device, precision, compile : str, str, bool, defaults "cpu", "auto", False
        Where and how it is trained, as in `SequenceEstimator`.
    random_state : int, RandomState or None, default None
    verbose : bool, default False

    Attributes
    ----------
    classes_ : ndarray
    image_shape_ : tuple of int
        Height, width and channels of the images of ``fit``.
    mean_, scale_ : ndarray, shape (channels,)
        Of the training pixels; inside, pixels are standardised.

    References
    ----------
    Dosovitskiy et al. (2021), An image is worth 16x16 words: transformers for image recognition at scale, ICLR.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.random((40, 4, 4))
    >>> y = np.repeat(["dark", "bright"], 20)
    >>> X[20:, :, :2] += 1  # bright on the left
    >>> model = VisionTransformerClassifier(patch=2, d_model=16, shift=0, random_state=0).fit(X, y)
    >>> model.score(X, y)
    1.0
    """

    patch: int = 4
    d_model: int = 64
    shift: int = 1
    weight_decay: float = 0.05
    n_epochs: int = 30

    # ------------------------------------------------------------------ fit

    def fit(self, X: object, y: object) -> Self:
        """Fit on images.

        Parameters
        ----------
        X : array-like, shape (n_images, height, width) or (n_images, height, width, channels)
            Numbers of any range, bytes too.
        y : array-like, shape (n_images,)
            Classes.

        Returns
        -------
        self

        Raises
        ------
        InputError
            When X is no stack of images, sizes are no multiples of the patch, or labels do not fit.
        """
        self._validate_params()
        images = _images(X)
        n, *shape = images.shape
        sides = f"a divisor of height {shape[0]} and width {shape[1]}"
        whole = not (shape[0] % self.patch or shape[1] % self.patch)
        expect(whole, "patch", sides, self.patch, "Choose another patch, or pad the images.")
        most = max(shape[:2])
        expect(self.shift <= most, "shift", f"at most the {most} pixels of a side", self.shift)
        labels = self._check_classes(y, n, "image")
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        self.image_shape_ = tuple(int(size) for size in shape)
        self.mean_, self.scale_ = centre_and_spread(images, (0, 1, 2))
        return self._fit((self._standardised(images), self._tensor(codes)))

    def _batches(self, examples: tuple[Tensor, Tensor], generator: Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield patches of images and their classes, shuffled anew in every pass."""
        pixels, truth = examples
        while True:
            for at in torch.randperm(len(truth), generator=generator).split(self.batch_size):
                yield self._patches(_shifted(pixels[at], self.shift, generator)), truth[at]

    def _build(self, generator: Generator) -> VisionTransformer:
        # a patch is a row of pixels
        embed = linear(self.patch**2 * self.image_shape_[2], self.d_model, generator=generator)
        summary = normal(1, self.d_model, std=0.02, generator=generator)
        positions = LearnedPositions2d(*self._grid, self.d_model, std=0.5, generator=generator)
        blocks = self._stack(generator)
        head = linear(self.d_model, len(self.classes_), generator=generator)
        return VisionTransformer(embed, summary, positions, blocks, head)

    @property
    def _grid(self) -> tuple[int, int]:
        """Number of rows and columns of patches."""
        return self.image_shape_[0] // self.patch, self.image_shape_[1] // self.patch

    def _standardised(self, images: np.ndarray) -> Tensor:
        scaled = (images - self.mean_.astype(np.float32)) / self.scale_.astype(np.float32)
        return torch.tensor(scaled, dtype=torch.float32).to(self._on)

    def _patches(self, images: Tensor) -> Tensor:  # (n, h, w, c) -> (n, P, patch * patch * c)
        cut = images.unflatten(1, (-1, self.patch)).unflatten(3, (-1, self.patch))  # (n, R, p, C, p, c)
        return cut.transpose(2, 3).flatten(3).flatten(1, 2)

    def _scores(self, module: VisionTransformer, images: np.ndarray) -> Tensor:
        return module(self._patches(self._standardised(images)))

    # ------------------------------------------------------------------ prediction

    def predict_proba(self, X: object) -> np.ndarray:
        """Return the probability of every class, (n_images, n_classes).

        Raises
        ------
        InputError
            When the images have another size than those of ``fit``.
        """
        module = self._module()
        images = _images(X, self.image_shape_)
        return self._in_parts(lambda part: self._scores(module, part).double().softmax(-1), images)

    def _loss_sums(self, module: VisionTransformer, X: object, y: object) -> Iterator[tuple[Tensor, int]]:
        pixels = self._standardised(_images(X, self.image_shape_))
        truth = self._class_numbers(self._check_classes(y, len(pixels), "image")).to(self._on)
        for part, classes in zip(pixels.split(256), truth.split(256)):
            yield F.cross_entropy(module(self._patches(part)), classes, reduction="sum"), len(classes)

    def attention(self, image: npt.ArrayLike) -> AttentionMap:
        """Return the attention weights between patches of one image; "cls" is the row that the class is read from.

        Parameters
        ----------
        image : array-like, shape (height, width) or (height, width, channels)
        """
        check_is_fitted(self)
        one = _images(np.asarray(image)[None], self.image_shape_)
        names = ["cls", *(f"{row},{column}" for row, column in np.ndindex(*self._grid))]
        return self._map(lambda module: self._scores(module, one), names)


def _images(X: object, shape: tuple[int, ...] | None = None) -> np.ndarray:
    """Return images as float32, (n, height, width, channels), of the height, width and channels of ``fit``."""
    with reworded_values("X must hold numbers"):
        images = np.asarray(X)
    wanted = "images as numbers, (n, height, width) or (n, height, width, channels)"
    fits = images.ndim in (3, 4) and images.size > 0 and images.dtype.kind in "biuf"
    expect(fits, "X", wanted, f"{images.dtype} of shape {images.shape}", "Rows of pixels: X.reshape(-1, height, width).")
    with reworded_values("X must hold numbers"), np.errstate(over="ignore"):
        images = images.astype(np.float32)
        assert_all_finite(images, input_name="X")
    if images.ndim == 3:
        images = images[..., None]
    wanted = f"images of height, width and channels {shape} as in fit"
    found = images.shape[1:]
    expect(shape is None or found == tuple(shape), "X", wanted, found, "Resize them.")
    return images


def _shifted(images: Tensor, shift: int, generator: Generator) -> Tensor:
    """Move every image (n, h, w, c) by up to ``shift`` pixels each way."""
    if not shift:
        return images
    n, height, width, _ = images.shape
    # filled on the device: reading the least value would wait for it
    wide = F.pad(images, (0, 0, shift, shift, shift, shift), value=-torch.inf).maximum(images.min())
    down, right = (torch.randint(2 * shift + 1, (n, 1), generator=generator).to(images.device) for _ in "yx")
    rows = down + torch.arange(height, device=images.device)
    columns = right + torch.arange(width, device=images.device)
    return wide[torch.arange(n, device=images.device)[:, None, None], rows[:, :, None], columns[:, None]]
