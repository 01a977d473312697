"""Muon: what it does to a matrix, to a network, and after a restart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from test_loop import CONFIG, LineTask
from torch import nn

from vhdiffuser.errors import Interrupted
from vhdiffuser.training.loop import train
from vhdiffuser.training.muon import Muon, orthogonalized
from vhdiffuser.weights.format import load_model


@pytest.mark.parametrize("shape", [(3, 16, 40), (2, 40, 16), (1, 24, 24)])
def test_orthogonalized_keeps_the_singular_vectors_and_evens_the_values(shape):
    generator = torch.Generator().manual_seed(0)
    matrices = torch.randn(shape, generator=generator)
    U, _, V = torch.linalg.svd(matrices, full_matrices=False)
    result = orthogonalized(matrices)
    rotated = U.transpose(1, 2) @ result @ V.transpose(1, 2)
    values = rotated.diagonal(dim1=1, dim2=2)
    assert ((values > 0.5) & (values < 1.3)).all()
    assert (rotated - torch.diag_embed(values)).abs().max() < 1e-3
    torch.testing.assert_close(orthogonalized(7.0 * matrices), result, atol=1e-4, rtol=1e-3)  # only direction counts


def test_what_is_no_convolution_is_updated_as_by_adamw():
    torch.manual_seed(0)
    ours, theirs = nn.Linear(5, 3), nn.Linear(5, 3)
    theirs.load_state_dict(ours.state_dict())
    optimizers = [
        Muon(ours.parameters(), lr=0.01, weight_decay=0.1),
        torch.optim.AdamW(theirs.parameters(), lr=0.01, weight_decay=0.1),
    ]
    for _ in range(20):
        x = torch.randn(8, 5)
        for network, optimizer in zip((ours, theirs), optimizers, strict=True):
            optimizer.zero_grad()
            network(x).square().sum().backward()
            optimizer.step()
    for mine, reference in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine, reference, atol=1e-6, rtol=1e-5)


class FilterTask(LineTask):
    """Learns a known filter over time, through a convolution wide enough for Muon."""

    def make_network(self):
        return nn.Sequential(nn.Conv1d(1, 16, 5, padding=2), nn.Conv1d(16, 16, 5, padding=2), nn.Conv1d(16, 1, 1))

    def loss(self, network, ema, generator, update):
        super().loss(lambda x: x, ema, generator, update)  # its counting and its stop signal
        x = torch.randn(16, 1, 32, generator=generator)
        target = x.roll(2, dims=2) - 0.5 * x
        return (network(x) - target)[:, :, 6:-6].square().mean(), {}


@pytest.mark.slow
def test_a_network_of_convolutions_learns_and_resumes_to_the_same_weights(tmp_path):
    config = replace(CONFIG, optimizer="muon", learning_rate=0.01, updates=200)
    losses = []
    train(lambda device: FilterTask(), config, tmp_path / "whole", lambda status: losses.append(status.metrics["loss"]))
    assert losses[-1] < 0.01 < 0.5 < losses[0]
    with pytest.raises(Interrupted):
        train(lambda device: FilterTask(stop_at=90), config, tmp_path / "stopped", lambda status: None)
    resumed = train(lambda device: FilterTask(), config, tmp_path / "stopped", lambda status: None)
    whole, _ = load_model(tmp_path / "whole/model.safetensors", "planner")
    again, _ = load_model(resumed, "planner")
    assert all(np.array_equal(whole[key], again[key]) for key in whole)
