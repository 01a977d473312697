"""The noising process: its schedule, closed form, targets and loss."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from vhdiffuser.diffusion.process import Process, clamp, denoising_loss
from vhdiffuser.diffusion.sampler import clamp_mask
from vhdiffuser.diffusion.schedule import Schedule, cosine_betas
from vhdiffuser.errors import VhdError

PREDICTIONS = ["epsilon", "sample", "v_prediction"]


def test_cosine_schedule_has_the_published_closed_form() -> None:
    steps, s = 64, 0.008
    process = Process(steps)

    def f(share: float) -> float:
        return math.cos((share + s) / (1 + s) * math.pi / 2) ** 2

    for i in range(steps - 1):  # the last beta is clipped
        assert float(process.alpha_bar[i]) == pytest.approx(f((i + 1) / steps) / f(0), rel=1e-4)
    assert float(process.betas[-1]) == pytest.approx(0.999)
    assert (np.diff(cosine_betas(steps)) > 0).all()


def test_closed_form_agrees_with_noising_step_by_step() -> None:
    """Eq. (4) applied i times has the mean and variance of eq. (5)."""
    process = Process(20)
    generator = torch.Generator().manual_seed(0)
    samples, level = 40_000, 12
    tau = torch.full((samples, 1, 1), 0.7)
    for beta in process.betas[: level + 1]:
        tau = (1 - beta).sqrt() * tau + beta.sqrt() * torch.randn(tau.shape, generator=generator)
    i = torch.full((samples,), level)
    direct = process.noised(torch.full_like(tau, 0.7), i, torch.randn(tau.shape, generator=generator))
    for drawn in (tau, direct):
        assert float(drawn.mean()) == pytest.approx(0.7 * float(process.alpha_bar[level].sqrt()), abs=0.02)
        assert float(drawn.var()) == pytest.approx(1 - float(process.alpha_bar[level]), abs=0.02)


@pytest.mark.parametrize("prediction", PREDICTIONS)
def test_the_target_leads_back_to_the_clean_trajectory(prediction: str) -> None:
    process = Process(64, prediction)
    generator = torch.Generator().manual_seed(0)
    i = torch.arange(60)  # at the last levels 1/sqrt(alpha_bar) leaves epsilon no digits
    tau0 = torch.rand(60, 9, 3, generator=generator) * 2 - 1
    epsilon = torch.randn(tau0.shape, generator=generator)
    tau_i = process.noised(tau0, i, epsilon)
    target = process.target(tau0, i, epsilon)
    torch.testing.assert_close(process.clean(target, i, tau_i), tau0, atol=1e-4, rtol=0)
    for level in (0, 20, 59):  # planning solves the same equation
        clean = Schedule(64, prediction).clean(target[level].numpy(), level, tau_i[level].numpy())
        np.testing.assert_allclose(clean, tau0[level], atol=1e-4)


def test_v_mixes_noise_and_signal_at_right_angles() -> None:
    """(tau^i, v) is (tau^0, epsilon) turned by an angle, so lengths add up."""
    process = Process(32, "v_prediction")
    generator = torch.Generator().manual_seed(0)
    tau0, epsilon = torch.randn(2, 32, 5, 2, generator=generator)
    i = torch.arange(32)
    turned = process.noised(tau0, i, epsilon).square() + process.target(tau0, i, epsilon).square()
    torch.testing.assert_close(turned, tau0.square() + epsilon.square(), atol=1e-4, rtol=1e-4)


def test_clamped_entries_are_in_place_and_out_of_the_loss() -> None:
    mask = torch.from_numpy(clamp_mask(np.array([5]), 6, 4, ([0, 1, 2, 3], [0, 1])))  # (1, 6, 4)
    assert mask.sum() == 6
    known, tau = torch.ones(2, 6, 4), torch.zeros(2, 6, 4)
    clamped = clamp(tau, known, mask)
    assert (clamped[:, 0] == 1).all()
    assert (clamped[:, -1] == torch.tensor([1.0, 1.0, 0.0, 0.0])).all()
    assert (clamped[:, 1:-1] == 0).all()

    target = torch.zeros(2, 6, 4)
    wrong_where_known = torch.where(mask, 100.0, 0.0).expand(2, 6, 4)
    assert float(denoising_loss(wrong_where_known, target, mask)) == 0
    off_by_two = torch.full((2, 6, 4), 2.0, requires_grad=True)
    loss = denoising_loss(off_by_two, target, mask)
    assert float(loss.detach()) == pytest.approx(4.0)
    loss.backward()
    assert off_by_two.grad is not None
    assert (off_by_two.grad[:, mask[0]] == 0).all()
    assert (off_by_two.grad[:, ~mask[0]] > 0).all()


def test_every_plan_of_a_batch_has_its_own_last_knot() -> None:
    mask = clamp_mask(np.array([2, 4, 3]), 5, 3, ([1, 2], [2]))
    assert mask[:, 0].tolist() == [[False, True, True]] * 3
    assert [np.argwhere(row).tolist() for row in mask[:, 1:]] == [[[1, 2]], [[3, 2]], [[2, 2]]]


def test_unknown_prediction_and_too_few_steps_are_refused() -> None:
    with pytest.raises(VhdError, match="v_prediction"):
        Process(64, "score")
    with pytest.raises(VhdError, match=">= 2"):
        Process(1)


def test_a_crop_that_is_clamped_altogether_has_no_loss_and_no_nan() -> None:
    predicted = torch.randn(3, 2, 2, requires_grad=True)
    loss = denoising_loss(predicted, torch.randn(3, 2, 2), torch.ones(1, 2, 2, dtype=torch.bool))
    loss.backward()
    assert loss.item() == 0
    assert predicted.grad is not None
    assert (predicted.grad == 0).all()
