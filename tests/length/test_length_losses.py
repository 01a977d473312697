"""The five loss terms at values worked out by hand."""

import pytest
import torch

from vhdiffuser.length.losses import L_TD, L_bdry, L_clip, L_cons, L_triangle, relay_target, target


def test_target_of_anchors_and_links() -> None:
    k = torch.tensor([20, 200, 10, 90])
    hit = torch.tensor([True, True, False, False])
    f_bar_k = torch.tensor([0.7, 0.7, 0.3, 0.3])
    torch.testing.assert_close(target(k, hit, f_bar_k, 100), torch.tensor([0.2, 1.0, 0.4, 1.0]))


def test_relay_target_shortens_anchors_and_replaces_the_bootstrap() -> None:
    y = torch.tensor([0.5, 0.2, 0.3, 0.3])
    hit = torch.tensor([True, True, False, False])
    way = torch.tensor([0.4, 0.4, 0.6, torch.inf])
    torch.testing.assert_close(relay_target(y, hit, way), torch.tensor([0.4, 0.2, 0.6, 0.3]))


@pytest.mark.parametrize(
    ("error", "expected"),
    [(0.01, 0.5 * 0.01**2), (-0.01, 0.5 * 0.01**2), (0.5, 0.1 * (0.5 - 0.05)), (-0.5, 0.1 * (0.5 - 0.05))],
)
def test_td_at_the_median_is_the_huber_loss(error: float, expected: float) -> None:
    y = torch.tensor([0.5])
    assert float(L_TD(y + error, y, 0.5, kappa=0.1)) == pytest.approx(expected, rel=1e-4)


def test_td_is_least_near_the_quantile() -> None:
    y = torch.rand(4001, generator=torch.Generator().manual_seed(0))
    values = torch.linspace(0, 1, 201)
    for tau in (0.1, 0.5, 0.9):
        losses = torch.stack([L_TD(value.expand_as(y), y, tau, kappa=1e-3) for value in values])
        assert abs(float(values[losses.argmin()]) - tau) < 0.02


def test_one_sided_terms() -> None:
    k, f_bar_k = torch.tensor([10, 10, 90]), torch.tensor([0.2, 0.2, 0.5])
    f = torch.tensor([0.5, 0.1, 1.2])  # 0.2 above its bound, below, 0.2 above the truncated bound
    assert float(L_cons(f, k, f_bar_k, 100)) == pytest.approx((0.04 + 0.0 + 0.04) / 3, rel=1e-5)
    assert float(L_triangle(f, k / 100, f_bar_k)) == pytest.approx((0.04 + 0.0 + 0.04) / 3, rel=1e-5)


def test_stabilizers() -> None:
    assert float(L_bdry(torch.tensor([0.0, 0.2]))) == pytest.approx(0.02)
    assert float(L_clip(torch.tensor([0.3, 1.0, 1.3]))) == pytest.approx(0.03, rel=1e-5)


def test_bounds_give_no_gradient_to_what_satisfies_them() -> None:
    f = torch.tensor([0.1, 0.9], requires_grad=True)
    L_triangle(f, torch.tensor([0.2, 0.2]), torch.tensor([0.2, 0.2])).backward()
    assert f.grad is not None
    assert float(f.grad[0]) == 0.0
    assert float(f.grad[1]) > 0.0
