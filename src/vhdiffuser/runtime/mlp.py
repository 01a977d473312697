"""The Length Predictor (`vhdiffuser.length.network`) and the inverse dynamics model as ONNX graphs."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from vhdiffuser.runtime.onnx_file import Graph
from vhdiffuser.runtime.unet import Tensors


def length_model(tensors: Tensors, goal_dims: Sequence[int], about: str = "") -> bytes:
    """f_theta: normalised `s` (n, d) and `g` (n, goal_dim) -> `f` (n, quantiles)."""
    graph = Graph()
    of_goal = "phi_g" if "phi_g.B" in tensors else "phi_s"  # if goals are full states, one encoder serves both
    d, goal_dim = tensors["phi_s.B"].shape[0], tensors[f"{of_goal}.B"].shape[0]
    s, g = graph.input("s", ["n", d]), graph.input("g", ["n", goal_dim])

    def phi(x: str, name: str) -> str:
        """[sin(2 pi x B), cos(2 pi x B), x]."""
        angle = graph.add("MatMul", x, graph.constant(np.float32(2 * math.pi) * tensors[f"{name}.B"]))
        return graph.add("Concat", graph.add("Sin", angle), graph.add("Cos", angle), x, axis=1)

    phi_g = phi(g, of_goal)
    z = [phi(s, "phi_s"), phi_g]
    features = sum(2 * tensors[f"{name}.B"].shape[1] + size for name, size in (("phi_s", d), (of_goal, goal_dim)))
    if tensors.get("mlp.0.weight", tensors["head.weight"]).shape[1] > features:  # with the relative channel
        place = graph.add("Gather", s, graph.constant(np.array(goal_dims)), axis=1)
        z.append(graph.add("Sub", phi(place, of_goal), phi_g))
    hidden = _normalised_layers(graph, graph.add("Concat", *z, axis=1), tensors, "mlp")
    f = graph.add("Softplus", _linear(graph, hidden, tensors, "head"))
    return graph.model(f, "f", ["n", len(tensors["head.bias"])], about)


def quasimetric_model(tensors: Tensors, goal_dims: Sequence[int], shape: Sequence[int], about: str = "") -> bytes:
    """f_theta with a quasimetric head of shape (quantiles, components, latent); inputs and output as in
    `length_model`."""
    graph = Graph()
    rest = tensors["rest"]
    s, g = graph.input("s", ["n", len(rest)]), graph.input("g", ["n", len(goal_dims)])

    def latent(x: str, encoder: str, mlp: str, head: str) -> str:
        angle = graph.add("MatMul", x, graph.constant(np.float32(2 * math.pi) * tensors[f"{encoder}.B"]))
        z = graph.add("Concat", graph.add("Sin", angle), graph.add("Cos", angle), x, axis=1)
        return _linear(graph, _normalised_layers(graph, z, tensors, mlp), tensors, head)

    place = graph.add("Gather", s, graph.constant(np.array(goal_dims)), axis=1)
    x, y = latent(place, "phi_g", "mlp", "head"), latent(g, "phi_g", "mlp", "head")
    if "phi_s.B" in tensors:
        kept = np.isin(np.arange(len(rest)), goal_dims)
        still = graph.add(
            "Add", graph.add("Mul", s, graph.constant(kept * 1.0)), graph.constant(np.where(kept, 0, rest))
        )
        moving, resting = (latent(state, "phi_s", "motion_mlp", "motion_head") for state in (s, still))
        x = graph.add("Sub", graph.add("Add", x, moving), resting)
    ahead = graph.add("Relu", graph.add("Sub", x, y))
    ahead = graph.add("Reshape", ahead, graph.constant(np.array([-1, *shape])))
    f = graph.add("ReduceMean", graph.add("ReduceMax", ahead, axes=[3], keepdims=0), axes=[2], keepdims=0)
    return graph.model(f, "f", ["n", shape[0]], about)


def dynamics_model(tensors: Tensors, body: int, about: str = "") -> bytes:
    """Inverse dynamics: normalised `body` (n, p) and `relative` (n, ahead * goal_dim) -> `action` (n, m)."""
    graph = Graph()
    last = max(int(key.split(".")[1]) for key in tensors)
    ahead = tensors["layers.0.weight"].shape[1] - body
    x = graph.add("Concat", graph.input("body", ["n", body]), graph.input("relative", ["n", ahead]), axis=1)
    hidden = _normalised_layers(graph, x, tensors, "layers", last)
    action = _linear(graph, hidden, tensors, f"layers.{last}")
    return graph.model(action, "action", ["n", len(tensors[f"layers.{last}.bias"])], about)


def _normalised_layers(graph: Graph, x: str, tensors: Tensors, name: str, end: int | None = None) -> str:
    """Linear, LayerNorm, ReLU for each such layer before number `end`."""
    number = 0
    while f"{name}.{number}.weight" in tensors and number != end:
        norm = f"{name}.{number + 1}"
        x = _linear(graph, x, tensors, f"{name}.{number}")
        gain, shift = graph.constant(tensors[f"{norm}.weight"]), graph.constant(tensors[f"{norm}.bias"])
        x = graph.add("Relu", graph.add("LayerNormalization", x, gain, shift, axis=-1, epsilon=1e-5))
        number += 3
    return x


def _linear(graph: Graph, x: str, tensors: Tensors, name: str) -> str:
    weight, bias = graph.constant(tensors[f"{name}.weight"].T), graph.constant(tensors[f"{name}.bias"])
    return graph.add("Add", graph.add("MatMul", x, weight), bias)


def length_shapes(
    state_dim: int, goal_dim: int | None, quantiles: int, features: int, width: int, depth: int, relative: bool
) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a Length Predictor's tensors; without `goal_dim`, goals are full states."""
    goal = state_dim if goal_dim is None else goal_dim
    inputs = 2 * features + state_dim + (1 + relative) * (2 * features + goal)
    shapes: dict[str, tuple[int, ...]] = {"phi_s.B": (state_dim, features)}
    shapes |= {} if goal_dim is None else {"phi_g.B": (goal_dim, features)}
    shapes |= _layer_shapes("mlp", inputs, width, depth)
    return shapes | {"head.weight": (quantiles, width if depth else inputs), "head.bias": (quantiles,)}


def quasimetric_shapes(
    state_dim: int, goal_dim: int | None, outputs: int, features: int, width: int, depth: int
) -> dict[str, tuple[int, ...]]:
    """Names and shapes of the tensors of a Length Predictor with a quasimetric head of `outputs` latent numbers."""
    goal = state_dim if goal_dim is None else goal_dim
    shapes: dict[str, tuple[int, ...]] = {"rest": (state_dim,)}
    parts = [("phi_g", "mlp", "head", goal)]
    parts += [("phi_s", "motion_mlp", "motion_head", state_dim)] if goal < state_dim else []
    for encoder, mlp, head, size in parts:
        inputs = 2 * features + size
        shapes[f"{encoder}.B"] = (size, features)
        shapes |= _layer_shapes(mlp, inputs, width, depth)
        shapes |= {f"{head}.weight": (outputs, width if depth else inputs), f"{head}.bias": (outputs,)}
    return shapes


def dynamics_shapes(inputs: int, actions: int, hidden: int, layers: int) -> dict[str, tuple[int, ...]]:
    """Names and shapes of an inverse dynamics model's tensors."""
    last = f"layers.{3 * layers}"
    shapes = _layer_shapes("layers", inputs, hidden, layers)
    return shapes | {f"{last}.weight": (actions, hidden), f"{last}.bias": (actions,)}


def _layer_shapes(name: str, inputs: int, width: int, depth: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    for number in range(depth):
        shapes[f"{name}.{3 * number}.weight"] = (width, width if number else inputs)
        for part in (f"{3 * number}.bias", f"{3 * number + 1}.weight", f"{3 * number + 1}.bias"):
            shapes[f"{name}.{part}"] = (width,)
    return shapes
