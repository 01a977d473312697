"""The U-Net's costliest layers, faster to train on a CPU and the same up to rounding.

A convolution with a kernel of five costs five products per output. Toom and Cook's algorithm F(4, 5) (Winograd's
minimal filtering) computes four outputs with eight: tiles of eight inputs and the kernel are evaluated as polynomials
at eight points, multiplied there, and interpolated. Over all channels and tiles, each product is one of matrices, which
BLAS computes at nearly the processor's peak.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import nn
from torch.autograd.function import once_differentiable

from vhdiffuser.types import FloatArray

_KERNEL, _OUTPUTS, _POINTS = 5, 4, 8
_MIN_WEIGHTS = 4096
"""With fewer pairs of input and output channels, torch's convolution is as fast."""


def _evaluations() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Matrices A (4, 8), G (8, 5), B (8, 8): the correlation of inputs d (8,) with weights g (5,) is A ((G g) * (B d)).

    They are the transpose of a polynomial product by evaluation at 0, 1, -1, 2, -2, 1/2, -1/2 and infinity, with the
    rows of B scaled to at most 1 in favour of G, which keeps the rounding error near that of a direct sum.
    """
    points = np.array([0, 1, -1, 2, -2, 0.5, -0.5])

    def powers(count: int) -> FloatArray:  # (8, count); the last row is the leading coefficient: the point at infinity
        return np.vstack([points[:, None] ** np.arange(count), np.eye(count)[-1]])

    B = np.linalg.inv(powers(_POINTS)).T
    scale = np.abs(B).max(axis=1, keepdims=True)
    A, G, B = powers(_OUTPUTS).T, powers(_KERNEL) * scale, B / scale
    return tuple(torch.tensor(np.round(matrix, 12), dtype=torch.float32) for matrix in (A, G, B))  # type: ignore[return-value]


_A, _G, _B = _evaluations()


def _quarters(x: torch.Tensor, front: int, tiles: int) -> torch.Tensor:
    """(B, C, L) -> (4, B, tiles, C): state 4t + q - front is at [q, :, t]; states outside are 0."""
    batch, channels, length = x.shape
    x = nn.functional.pad(x, (front, _OUTPUTS * tiles - length - front))
    return x.view(batch, channels, tiles, _OUTPUTS).permute(3, 0, 2, 1).contiguous()


def _joined(quarters: torch.Tensor, front: int, length: int) -> torch.Tensor:
    """The inverse of `_quarters`: (4, B, tiles, C) -> (B, C, length)."""
    _, batch, tiles, channels = quarters.shape
    x = quarters.permute(1, 3, 2, 0).reshape(batch, channels, _OUTPUTS * tiles)
    return x[:, :, front : front + length].contiguous()


class _Convolution(torch.autograd.Function):
    """Correlation over time with a kernel of five, padded with two zeros at either end."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        batch, c_in, length = x.shape
        c_out, tiles = len(weight), -(-length // _OUTPUTS)
        quarters = _quarters(x, _KERNEL // 2, tiles + 1)
        windows = torch.cat((quarters[:, :, :-1], quarters[:, :, 1:]))  # (8, B, tiles, C_in), four states apart
        values = (_B @ windows.view(_POINTS, -1)).view(_POINTS, batch * tiles, c_in)
        kernels = (_G @ weight.permute(2, 0, 1).reshape(_KERNEL, -1)).view(_POINTS, c_out, c_in)
        products = torch.bmm(values, kernels.transpose(1, 2))  # (8, B * tiles, C_out)
        outputs = (_A @ products.view(_POINTS, -1)).view(_OUTPUTS, batch, tiles, c_out)
        ctx.save_for_backward(values, kernels)
        ctx.length = length
        return _joined(outputs.add_(bias), 0, length)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Each linear map's transpose, in reverse order."""
        values, kernels = ctx.saved_tensors
        (batch, c_out, length), c_in = grad.shape, values.shape[2]
        tiles = -(-length // _OUTPUTS)
        products = (_A.T @ _quarters(grad, 0, tiles).view(_OUTPUTS, -1)).view(_POINTS, batch * tiles, c_out)
        for_kernels = torch.bmm(products.transpose(1, 2), values)  # (8, C_out, C_in)
        for_weight = (_G.T @ for_kernels.view(_POINTS, -1)).view(_KERNEL, c_out, c_in).permute(1, 2, 0)
        windows = (_B.T @ torch.bmm(products, kernels).view(_POINTS, -1)).view(_POINTS, batch, tiles, c_in)
        quarters = nn.functional.pad(windows[:_OUTPUTS], (0, 0, 0, 1))
        quarters[:, :, 1:] += windows[_OUTPUTS:]
        return _joined(quarters, _KERNEL // 2, length), for_weight.contiguous(), grad.sum((0, 2))


class _Mish(torch.autograd.Function):
    """x tanh(softplus(x)) with one exponential: tanh(log(1 + e)) = n / (n + 2), where n = e (e + 2)."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        e = x.clamp(max=20.0).exp_()  # above 20, tanh(softplus(x)) is 1 in float32
        n = e * (e + 2)
        tanh = n / (n + 2)
        ctx.save_for_backward(x, e, tanh)
        return x * tanh

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        """tanh + x (1 - tanh^2) sigmoid(x)."""
        x, e, tanh = ctx.saved_tensors
        slope = (1 - tanh * tanh).mul_(e).div_(e + 1).mul_(x).add_(tanh)
        return slope.mul_(grad)


def _trains_on_cpu(x: torch.Tensor) -> bool:
    return (
        torch.is_grad_enabled()
        and x.device.type == "cpu"
        and x.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
    )


class TemporalConv(nn.Conv1d):
    """`nn.Conv1d` with a kernel of five and the length kept: (B, C_in, L) -> (B, C_out, L)."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__(channels_in, channels_out, _KERNEL, padding=_KERNEL // 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.weight.requires_grad and _trains_on_cpu(x) and self.in_channels * self.out_channels >= _MIN_WEIGHTS:
            assert self.bias is not None
            return _Convolution.apply(x, self.weight, self.bias)  # type: ignore[no-any-return,no-untyped-call]
        return super().forward(x)


class PointwiseConv(nn.Conv1d):
    """`nn.Conv1d` with a kernel of one: (B, C_in, L) -> (B, C_out, L)."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__(channels_in, channels_out, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if _trains_on_cpu(x):
            return nn.functional.linear(x.transpose(1, 2), self.weight[..., 0], self.bias).transpose(1, 2)
        return super().forward(x)


class Mish(nn.Mish):
    """`nn.Mish`."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if _trains_on_cpu(x):
            return _Mish.apply(x)  # type: ignore[no-any-return,no-untyped-call]
        return super().forward(x)
