"""The fast layers compute what torch's do, and so do their gradients."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from vhdiffuser.diffusion import fast_layers
from vhdiffuser.diffusion.fast_layers import Mish, TemporalConv
from vhdiffuser.diffusion.unet import TemporalUnet


def relative(ours: torch.Tensor, exact: torch.Tensor) -> float:
    return float((ours - exact).detach().norm() / exact.detach().norm())


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 8, 34])
@pytest.mark.parametrize(("c_in", "c_out"), [(64, 64), (64, 96), (128, 64)])
def test_the_convolution_and_its_gradients_are_those_of_a_direct_sum(length: int, c_in: int, c_out: int) -> None:
    generator = torch.Generator().manual_seed(length + c_in + c_out)
    conv = TemporalConv(c_in, c_out)
    x = torch.randn(3, c_in, length, generator=generator, requires_grad=True)
    grad = torch.randn(3, c_out, length, generator=generator)
    y = conv(x)
    assert y.grad_fn is not None
    assert "_Convolution" in y.grad_fn.name()
    ours = [y, *torch.autograd.grad(y, (x, conv.weight, conv.bias), grad)]

    padded = nn.functional.pad(x.detach().double(), (2, 2)).requires_grad_()
    weight, bias = (parameter.detach().double().requires_grad_() for parameter in conv.parameters())
    exact = sum(
        (torch.einsum("oc,bcl->bol", weight[..., k], padded[..., k : k + length]) for k in range(5)), bias[:, None]
    )
    for_padded, *others = torch.autograd.grad(exact, (padded, weight, bias), grad.double())
    for mine, theirs in zip(ours, [exact, for_padded[..., 2 : length + 2], *others], strict=True):
        assert relative(mine, theirs) < 5e-6


def test_mish_and_its_slope_are_exact_from_far_below_to_far_above_zero() -> None:
    x = torch.cat((torch.linspace(-30, 30, 2001), torch.tensor([-1e4, -100.0, 100.0, 1e4]))).requires_grad_()
    y = Mish()(x)
    (slope,) = torch.autograd.grad(y.sum(), x)
    z = x.detach().double().requires_grad_()
    exact = z * torch.tanh(nn.functional.softplus(z))
    (exact_slope,) = torch.autograd.grad(exact.sum(), z)
    torch.testing.assert_close(y.double(), exact, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(slope.double(), exact_slope, rtol=1e-5, atol=1e-6)


def test_a_network_in_training_agrees_with_the_same_network_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    net = TemporalUnet(4, 32, (1, 2, 4))
    x, time = torch.randn(5, 22, 4), torch.arange(5)

    def outcome() -> tuple[torch.Tensor, ...]:
        y = net(x, time)
        return y, *torch.autograd.grad(y.square().mean(), tuple(net.parameters()))

    fast = outcome()
    with torch.no_grad():
        used = net(x, time)
    monkeypatch.setattr(fast_layers, "_trains_on_cpu", lambda x: False)
    plain = outcome()
    torch.testing.assert_close(used, plain[0], rtol=0, atol=0)
    for mine, theirs in zip(fast, plain, strict=True):
        assert relative(mine, theirs) < 1e-4


def test_half_precision_leaves_the_layers_to_torch() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        y = TemporalConv(64, 64)(torch.randn(2, 64, 12))
    assert y.dtype == torch.bfloat16
