"""Off-screen rendering of a MuJoCo simulation."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import mujoco
import numpy as np

from vhdiffuser.errors import VhdError
from vhdiffuser.types import FloatArray, ImageArray

_RED = np.array([0.84, 0.27, 0.25, 1.0], np.float32)


class Offscreen:
    """Renders one model into memory. Created once per model and size: opening a graphics context is slow."""

    def __init__(self, model: Any, width: int, height: int) -> None:
        # mujoco.Renderer fixes its backend when mujoco is first imported, by an environment variable that is
        # rarely set; opening the context here lets us try the available backends.
        self._context = _open_context(width, height)
        self._context.make_current()
        self.size = (width, height)
        self._view = mujoco.MjrRect(0, 0, width, height)
        model.vis.global_.offwidth, model.vis.global_.offheight = width, height
        try:
            self._scene = mujoco.MjvScene(model, maxgeom=2000)
            self._drawing = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_100.value)
        except mujoco.FatalError as error:
            raise VhdError(_advice(str(error))) from error
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._drawing)
        self._model = model

    def draw(self, data: Any, camera: Any, marks: Sequence[tuple[FloatArray, float]] = ()) -> ImageArray:
        """(height, width, 3) uint8 image from a camera; `marks` are (centre, radius) of red balls."""
        self._context.make_current()
        mujoco.mjv_updateScene(
            self._model,
            data,
            mujoco.MjvOption(),
            mujoco.MjvPerturb(),
            camera,
            mujoco.mjtCatBit.mjCAT_ALL.value,
            self._scene,
        )
        for centre, radius in marks:
            mujoco.mjv_initGeom(
                self._scene.geoms[self._scene.ngeom],
                mujoco.mjtGeom.mjGEOM_SPHERE,
                np.full(3, radius),
                np.asarray(centre, np.float64),
                np.eye(3).ravel(),
                _RED,
            )
            self._scene.ngeom += 1
        mujoco.mjr_render(self._view, self._scene, self._drawing)
        picture = np.empty((self.size[1], self.size[0], 3), np.uint8)
        mujoco.mjr_readPixels(picture, None, self._view, self._drawing)
        return np.flipud(picture).copy()  # OpenGL counts rows from the bottom

    def close(self) -> None:
        """Free the graphics memory."""
        self._drawing.free()
        self._context.free()


def resized(present: Offscreen | None, model: Any, width: int, height: int) -> Offscreen:
    """`present` if it already has this size, otherwise a new renderer."""
    if present is not None and present.size == (width, height):
        return present
    if present is not None:
        present.close()
    return Offscreen(model, width, height)


def _open_context(width: int, height: int) -> Any:
    """An OpenGL context: the one named by MUJOCO_GL, otherwise the first that opens."""
    asked = os.environ.get("MUJOCO_GL", "").lower()
    usual = ("egl", "osmesa", "glfw") if sys.platform.startswith("linux") else ("cgl", "glfw")
    failures = []
    for backend in (asked,) if asked in ("egl", "osmesa", "glfw", "cgl") else usual:
        platform = os.environ.get("PYOPENGL_PLATFORM")
        try:
            return import_module(f"mujoco.{backend}").GLContext(width, height)
        # The bindings fail in many ways (no library, no device, no symbol); try the next one in each case.
        except Exception as error:
            failures.append(f"{backend}: {type(error).__name__}: {error}")
            if platform is None:
                os.environ.pop("PYOPENGL_PLATFORM", None)
    raise VhdError(_advice("; ".join(failures)))


def _advice(reason: str) -> str:
    return (
        f"cannot render on this machine ({reason}). Install OpenGL for off-screen use (Debian, Ubuntu: `apt "
        "install libegl1 libgl1`, or `libosmesa6` with MUJOCO_GL=osmesa). Everything except images and videos "
        "works without it."
    )
