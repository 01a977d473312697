"""Diffuser's temporal U-Net (Janner et al. 2022), unchanged: no horizon input, any length.

Parameter names are the original's, so its checkpoints load unchanged.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable
from itertools import pairwise
from typing import cast

import torch
import torch.nn.functional as F
from torch import nn

from vhdiffuser.diffusion.fast_layers import Mish, PointwiseConv, TemporalConv
from vhdiffuser.errors import VhdError

GROUPS = 8
Levels = Iterable[tuple[nn.Module, nn.Module, nn.Module]]


class SinusoidalPosEmb(nn.Module):
    """Diffusion time (B,) -> (B, dim): sines and cosines of geometrically spaced frequencies."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.count = dim // 2

    def forward(self, time: torch.Tensor) -> torch.Tensor:
        rate = math.log(10000) / (self.count - 1)
        frequencies = torch.exp(torch.arange(self.count, device=time.device) * -rate)  # (dim/2,)
        angles = time[:, None] * frequencies[None, :]  # (B, dim/2)
        return torch.cat((angles.sin(), angles.cos()), dim=-1)


class Conv1dBlock(nn.Module):
    """Convolution over time, GroupNorm, Mish: (B, C_in, L) -> (B, C_out, L)."""

    def __init__(self, channels_in: int, channels_out: int) -> None:
        super().__init__()
        # Gaps in the numbering correspond to the original's reshapes, which a 1-D GroupNorm does not need.
        self.block = nn.Sequential(
            OrderedDict(
                [
                    ("0", TemporalConv(channels_in, channels_out)),
                    ("2", nn.GroupNorm(GROUPS, channels_out)),
                    ("4", Mish()),
                ]
            )
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.block(x)


class ResidualTemporalBlock(nn.Module):
    """Two convolution blocks with the diffusion time added between them, and a skip connection."""

    def __init__(self, channels_in: int, channels_out: int, time_dim: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Conv1dBlock(channels_in, channels_out), Conv1dBlock(channels_out, channels_out)])
        self.time_mlp = nn.Sequential(nn.Mish(), nn.Linear(time_dim, channels_out))
        same = channels_in == channels_out
        self.residual_conv = nn.Identity() if same else PointwiseConv(channels_in, channels_out)

    def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        out = self.blocks[0](x) + self.time_mlp(t)[:, :, None]  # (B, C, L) + (B, C, 1)
        return self.blocks[1](out) + self.residual_conv(x)


class Downsample1d(nn.Module):
    """(B, C, L) -> (B, C, L/2)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, 3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


class Upsample1d(nn.Module):
    """(B, C, L) -> (B, C, 2L)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose1d(channels, channels, 4, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x)


class TemporalUnet(nn.Module):
    """DM_phi(tau^i, i): a noisy trajectory (B, L, d) and its diffusion time (B,) -> (B, L, d).

    Each downsampling needs an even length. Other lengths are padded with copies of the last state to the next multiple,
    and cropped at the end.
    """

    def __init__(self, state_dim: int, dim: int = 32, dim_mults: tuple[int, ...] = (1, 2, 4)) -> None:
        super().__init__()
        check_widths(dim, dim_mults)
        widths = [state_dim, *(dim * mult for mult in dim_mults)]
        resolutions = list(pairwise(widths))
        self.multiple = 2 ** (len(dim_mults) - 1)

        self.time_mlp = nn.Sequential(
            SinusoidalPosEmb(dim), nn.Linear(dim, dim * 4), nn.Mish(), nn.Linear(dim * 4, dim)
        )
        self.downs = nn.ModuleList(
            nn.ModuleList(
                [
                    ResidualTemporalBlock(narrow, wide, dim),
                    ResidualTemporalBlock(wide, wide, dim),
                    Downsample1d(wide) if number < len(resolutions) - 1 else nn.Identity(),
                ]
            )
            for number, (narrow, wide) in enumerate(resolutions)
        )
        self.mid_block1 = ResidualTemporalBlock(widths[-1], widths[-1], dim)
        self.mid_block2 = ResidualTemporalBlock(widths[-1], widths[-1], dim)
        self.ups = nn.ModuleList(
            nn.ModuleList(
                [
                    ResidualTemporalBlock(2 * wide, narrow, dim),
                    ResidualTemporalBlock(narrow, narrow, dim),
                    Upsample1d(narrow),
                ]
            )
            for narrow, wide in reversed(resolutions[1:])
        )
        self.final_conv = nn.Sequential(Conv1dBlock(widths[1], widths[1]), PointwiseConv(widths[1], state_dim))

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        length = x.shape[1]
        x = x.transpose(1, 2)  # (B, d, L)
        if missing := -length % self.multiple:
            x = F.pad(x, (0, missing), mode="replicate")
        t = self.time_mlp(time)  # (B, dim)

        skips = []
        for block1, block2, downsample in cast(Levels, self.downs):
            x = block2(block1(x, t), t)
            skips.append(x)
            x = downsample(x)
        x = self.mid_block2(self.mid_block1(x, t), t)
        for block1, block2, upsample in cast(Levels, self.ups):
            x = torch.cat((x, skips.pop()), dim=1)
            x = upsample(block2(block1(x, t), t))
        return self.final_conv(x)[:, :, :length].transpose(1, 2)  # (B, L, d)


def check_widths(dim: int, dim_mults: tuple[int, ...]) -> None:
    """Raise `VhdError` for widths that GroupNorm or the skip connections cannot handle."""
    if dim < GROUPS or dim % GROUPS:
        raise VhdError(f"dim must be a positive multiple of {GROUPS} (GroupNorm has {GROUPS} groups); got {dim}.")
    if not dim_mults or dim_mults[0] != 1 or min(dim_mults) < 1:
        raise VhdError(f"dim_mults must be positive and start with 1, as in (1, 2, 4); got {tuple(dim_mults)}.")
