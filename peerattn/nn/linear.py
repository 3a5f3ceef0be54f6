"""Linear layers, tables and dropout, which draw from their own generator."""

import torch
from torch import Generator, Tensor, nn
from torch.nn.utils import skip_init

from peerattn.exceptions import expect


def linear(d_in: int, d_out: int, *, generator: Generator, bias: bool = True) -> nn.Linear:
    r"""Return :math:`x \mapsto W x + b` with Xavier-uniform weights and zero bias.

    Parameters
    ----------
    d_in, d_out : int
        Widths of input and output.
    generator : torch.Generator
        A CPU generator, the only source of randomness. Weights are drawn on the CPU: every device gets the
        same ones.
    bias : bool, default True
        Whether there is a b.

    Returns
    -------
    nn.Linear
        On torch's default device (so that ``with torch.device("meta")`` builds it without memory).

    Notes
    -----
    Constructing `torch.nn.Linear` by itself would move torch's global generator; this does not.

    References
    ----------
    Glorot and Bengio (2010), Understanding the difficulty of training deep feedforward neural networks,
    AISTATS.

    Examples
    --------
    >>> linear(3, 2, generator=torch.Generator().manual_seed(0))
    Linear(in_features=3, out_features=2, bias=True)
    """
    layer = skip_init(nn.Linear, d_in, d_out, bias=bias, device=torch.get_default_device())
    # on torch's meta device there is nothing to draw into
    if layer.weight.is_meta:
        return layer  # nothing to fill
    # on the CPU, so that a seed gives one start on every device
    drawn = torch.empty(d_out, d_in, device="cpu", dtype=layer.weight.dtype)
    nn.init.xavier_uniform_(drawn, generator=generator)
    with torch.no_grad():
        layer.weight.copy_(drawn)
        if bias:
            layer.bias.zero_()
    return layer


def normal(*shape: int, std: float, generator: Generator | None) -> nn.Parameter:
    """Return a parameter drawn from a normal distribution, on the CPU like those of `linear`.

    Parameters
    ----------
    *shape : int
    std : float
        Standard deviation.
    generator : torch.Generator or None
        None: a new generator with torch's fixed default seed.

    Examples
    --------
    >>> normal(2, 3, std=0.02, generator=None).shape
    torch.Size([2, 3])
    """
    expect(0 <= std < torch.inf, "std", "a number of at least 0", std)
    device = torch.get_default_device()
    if device.type == "meta":
        return nn.Parameter(torch.empty(*shape, device=device))
    if generator is None:
        generator = Generator()
    return nn.Parameter((torch.randn(*shape, generator=generator, device="cpu") * std).to(device))


def split_heads(x: Tensor, d_head: int) -> Tensor:
    """Return the columns of all heads as one block a head, (..., N, H d) -> (..., H, N, d).

    Examples
    --------
    >>> split_heads(torch.arange(4.0).view(1, 4), 2)
    tensor([[[0., 1.]],
    <BLANKLINE>
            [[2., 3.]]])
    """
    return x.unflatten(-1, (x.shape[-1] // d_head, d_head)).transpose(-2, -3)


class Dropout(nn.Module):
    r"""Set a share p of the entries to zero in training, and divide the others by 1 − p.

    Parameters
    ----------
    p : float
        Share, in [0, 1).
    generator : torch.Generator, default None
        Gives the seed of the layer's own generator, only if p > 0; None: seed 0.

    Raises
    ------
    InputError
        When p is outside [0, 1).

    Notes
    -----
    `torch.nn.Dropout` draws from torch's global generator; this does not, so that a fit repeats itself.

    References
    ----------
    Srivastava et al. (2014), Dropout: a simple way to prevent neural networks from overfitting, JMLR 15.

    Examples
    --------
    >>> dropout = Dropout(0.5)
    >>> sorted({round(x, 1) for x in dropout(torch.ones(100)).tolist()})
    [0.0, 2.0]
    >>> dropout.eval()(torch.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, p: float, *, generator: Generator | None = None):
        super().__init__()
        expect(0 <= p < 1, "dropout", "a share of at least 0 and below 1", p)
        self.p = p
        drawn = p > 0 and generator is not None
        self.seed = int(torch.randint(2**31, (), generator=generator, device="cpu")) if drawn else 0
        self._generator: Generator | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Return x with entries dropped in training mode, x itself otherwise."""
        if not self.training or self.p == 0:
            return x
        # a generator of its own device: the same seed, so that a copy drops alike
        if self._generator is None or self._generator.device != x.device:
            self._generator = Generator(x.device).manual_seed(self.seed)
        return x * self._keep(x.shape, x.device).to(x.dtype).div_(1 - self.p)

    def _keep(self, shape: torch.Size, device: torch.device) -> Tensor:
        """Return True with probability 1 − p (to 16 bits): four draws from each 64-bit number, 3 times faster than one."""
        n = shape.numel()
        # random 64-bit numbers cost the same as 16-bit ones
        bits = torch.empty(-(-n // 4), dtype=torch.int64, device=device)
        bits.random_(-(2**63), None, generator=self._generator)
        return (bits.view(torch.int16)[:n] >= round(self.p * 2**16) - 2**15).view(shape)
