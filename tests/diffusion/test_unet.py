"""The U-Net computes what the original computes, under the original's names, for every length."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from vhdiffuser.diffusion.unet import TemporalUnet
from vhdiffuser.errors import VhdError

Weights = dict[str, torch.Tensor]


def original_state_dict(width: int, dim: int, mults: tuple[int, ...], seed: int = 0) -> Weights:
    """Random weights with the names and shapes of jannerm/diffuser's TemporalUnet."""
    generator = torch.Generator().manual_seed(seed)
    weights: Weights = {}

    def put(name: str, *shape: int) -> None:
        fan_in = math.prod(shape[1:]) if len(shape) > 1 else 4
        weights[name] = torch.randn(*shape, generator=generator) / math.sqrt(fan_in)

    def linear(name: str, fan_out: int, fan_in: int, *kernel: int) -> None:
        put(f"{name}.weight", fan_out, fan_in, *kernel)
        put(f"{name}.bias", fan_out)

    def residual(name: str, c_in: int, c_out: int) -> None:
        for number, c in enumerate((c_in, c_out)):
            linear(f"{name}.blocks.{number}.block.0", c_out, c, 5)
            put(f"{name}.blocks.{number}.block.2.weight", c_out)
            put(f"{name}.blocks.{number}.block.2.bias", c_out)
        linear(f"{name}.time_mlp.1", c_out, dim)
        if c_in != c_out:
            linear(f"{name}.residual_conv", c_out, c_in, 1)

    dims = [width, *(dim * m for m in mults)]
    linear("time_mlp.1", 4 * dim, dim)
    linear("time_mlp.3", dim, 4 * dim)
    for level in range(len(mults)):
        residual(f"downs.{level}.0", dims[level], dims[level + 1])
        residual(f"downs.{level}.1", dims[level + 1], dims[level + 1])
        if level < len(mults) - 1:
            linear(f"downs.{level}.2.conv", dims[level + 1], dims[level + 1], 3)
    residual("mid_block1", dims[-1], dims[-1])
    residual("mid_block2", dims[-1], dims[-1])
    for number, level in enumerate(reversed(range(1, len(mults)))):
        residual(f"ups.{number}.0", 2 * dims[level + 1], dims[level])
        residual(f"ups.{number}.1", dims[level], dims[level])
        linear(f"ups.{number}.2.conv", dims[level], dims[level], 4)
    linear("final_conv.0.block.0", dim, dim, 5)
    put("final_conv.0.block.2.weight", dim)
    put("final_conv.0.block.2.bias", dim)
    linear("final_conv.1", width, dim, 1)
    return weights


# Reference pieces, written out of elementary operations rather than torch's layers.


def mish(x: torch.Tensor) -> torch.Tensor:
    return x * torch.tanh(torch.log1p(torch.exp(x)))


def convolve(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, stride: int, padding: int) -> torch.Tensor:
    padded = F.pad(x, (padding, padding))
    windows = padded.unfold(2, weight.shape[2], stride)  # (B, C_in, L_out, kernel)
    return torch.einsum("bilk,oik->bol", windows, weight) + bias[None, :, None]


def convolve_up(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Transposed convolution, kernel 4, stride 2, padding 1: every input adds its kernel to the output."""
    batch, _, length = x.shape
    out = torch.zeros(batch, weight.shape[1], 2 * length + 2, dtype=x.dtype)
    for position in range(length):
        out[:, :, 2 * position : 2 * position + 4] += torch.einsum("bi,iok->bok", x[:, :, position], weight)
    return out[:, :, 1:-1] + bias[None, :, None]


def group_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    batch, channels, length = x.shape
    groups = x.reshape(batch, 8, -1)
    mean = groups.mean(-1, keepdim=True)
    variance = (groups - mean).square().mean(-1, keepdim=True)
    normal = ((groups - mean) / torch.sqrt(variance + 1e-5)).reshape(batch, channels, length)
    return normal * weight[None, :, None] + bias[None, :, None]


def reference(w: Weights, x: torch.Tensor, time: torch.Tensor, dim: int, depth: int) -> torch.Tensor:
    def conv_block(name: str, x: torch.Tensor) -> torch.Tensor:
        out = convolve(x, w[f"{name}.block.0.weight"], w[f"{name}.block.0.bias"], 1, 2)
        return mish(group_norm(out, w[f"{name}.block.2.weight"], w[f"{name}.block.2.bias"]))

    def dense(name: str, x: torch.Tensor) -> torch.Tensor:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def residual(name: str, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        out = conv_block(f"{name}.blocks.0", x) + dense(f"{name}.time_mlp.1", mish(t))[:, :, None]
        out = conv_block(f"{name}.blocks.1", out)
        skip = f"{name}.residual_conv.weight"
        return out + (convolve(x, w[skip], w[f"{name}.residual_conv.bias"], 1, 0) if skip in w else x)

    half = dim // 2
    frequencies = torch.tensor([math.exp(-math.log(10000) * n / (half - 1)) for n in range(half)], dtype=x.dtype)
    angles = time[:, None].to(x.dtype) * frequencies
    t = dense("time_mlp.3", mish(dense("time_mlp.1", torch.cat([angles.sin(), angles.cos()], 1))))
    x = x.transpose(1, 2)
    skips = []
    for level in range(depth):
        x = residual(f"downs.{level}.1", residual(f"downs.{level}.0", x, t), t)
        skips.append(x)
        if level < depth - 1:
            x = convolve(x, w[f"downs.{level}.2.conv.weight"], w[f"downs.{level}.2.conv.bias"], 2, 1)
    x = residual("mid_block2", residual("mid_block1", x, t), t)
    for number in range(depth - 1):
        x = torch.cat([x, skips.pop()], 1)
        x = residual(f"ups.{number}.1", residual(f"ups.{number}.0", x, t), t)
        x = convolve_up(x, w[f"ups.{number}.2.conv.weight"], w[f"ups.{number}.2.conv.bias"])
    x = conv_block("final_conv.0", x)
    return convolve(x, w["final_conv.1.weight"], w["final_conv.1.bias"], 1, 0).transpose(1, 2)


def loaded(width: int, dim: int, mults: tuple[int, ...]) -> tuple[TemporalUnet, Weights]:
    weights = original_state_dict(width, dim, mults)
    network = TemporalUnet(width, dim, mults)
    network.load_state_dict(weights)  # strict: the names and shapes are the original's, all of them
    return network.eval(), weights


@pytest.mark.parametrize(("width", "dim", "mults"), [(6, 32, (1, 4, 8)), (4, 16, (1, 2, 4)), (3, 8, (1, 2, 2, 4))])
@torch.no_grad()
def test_same_weights_give_the_originals_output(width: int, dim: int, mults: tuple[int, ...]) -> None:
    network, weights = loaded(width, dim, mults)
    x = torch.randn(3, 24, width, generator=torch.Generator().manual_seed(1))
    time = torch.tensor([0, 7, 255])
    exact = reference({k: v.double() for k, v in weights.items()}, x.double(), time, dim, len(mults))
    answer = network(x, time)
    assert exact.abs().max() > 0.1
    torch.testing.assert_close(answer.double(), exact, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_every_length_comes_back_padded_by_copies_of_its_last_state() -> None:
    network, weights = loaded(4, 8, (1, 2, 4))
    time = torch.tensor([5])
    generator = torch.Generator().manual_seed(0)
    for length in range(2, 40):
        x = torch.randn(1, length, 4, generator=generator)
        longer = torch.cat([x, x[:, -1:].expand(-1, -length % 4, -1)], dim=1)
        expected = reference(weights, longer, time, 8, 3)[:, :length]
        torch.testing.assert_close(network(x, time), expected, atol=2e-5, rtol=1e-4)


@torch.no_grad()
def test_a_plan_does_not_depend_on_its_company() -> None:
    network, _ = loaded(4, 16, (1, 2, 4))
    x = torch.randn(5, 19, 4, generator=torch.Generator().manual_seed(0))
    time = torch.arange(5)
    alone = torch.cat([network(x[n : n + 1], time[n : n + 1]) for n in range(5)])
    torch.testing.assert_close(network(x, time), alone, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("dim", "mults"), [(12, (1, 2)), (0, (1, 2)), (16, ()), (16, (2, 4)), (16, (1, 0))])
def test_impossible_widths_are_refused(dim: int, mults: tuple[int, ...]) -> None:
    with pytest.raises(VhdError, match="must be"):
        TemporalUnet(4, dim, mults)
