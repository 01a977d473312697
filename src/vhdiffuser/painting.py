"""Top views drawn with Pillow, and GIFs of them: fast enough for video frames."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from vhdiffuser.errors import VhdError
from vhdiffuser.files import atomic_path
from vhdiffuser.types import FloatArray, ImageArray

if TYPE_CHECKING:
    from PIL import Image, ImageDraw

Colour = tuple[int, int, int]
WALL, PLAN, TRACE, ROBOT, START, GOAL, OLD_GOAL, TEXT = (
    (201, 204, 211),
    (138, 143, 156),
    (120, 170, 245),
    (31, 111, 235),
    (227, 160, 8),
    (214, 69, 65),
    (240, 196, 194),
    (40, 44, 52),
)
_COLOURS = 64
"""Colours per GIF: enough for flat images, few enough for small files."""


def moments(steps: int, every: int) -> list[int]:
    """Every `every`-th step, and the last."""
    return [*range(0, steps, every), steps]


class TopView:
    """A view from above; the top `caption` pixels are left free for text."""

    def __init__(self, points: FloatArray, boxes: FloatArray, size: int, caption: int = 0) -> None:
        from PIL import Image, ImageDraw

        self._low, high = _limits(points, boxes)
        extent = high - self._low
        self._size, self._scale, self._caption = size, size / float(extent.max()), caption
        width, height = (max(1, int(np.ceil(length * self._scale))) for length in extent)
        self._bottom = height + caption
        self.background = Image.new("RGB", (width, self._bottom), "white")
        draw = ImageDraw.Draw(self.background)
        for x0, x1, y0, y1 in boxes:
            (left, bottom), (right, top) = self._pixels(np.array([[x0, y0], [x1, y1]]))
            draw.rectangle((left, top, right, bottom), fill=WALL)
        self._draw_axes(draw)

    def line(self, picture: Image.Image, points: FloatArray, colour: Colour, width: float) -> None:
        """Draw a path; nothing for a single point."""
        from PIL import ImageDraw

        if len(points) > 1:
            ImageDraw.Draw(picture).line(self._pixels(points), fill=colour, width=round(width), joint="curve")

    def dot(self, picture: Image.Image, place: FloatArray, colour: Colour, radius: float) -> None:
        """Draw a disc; the radius is a fraction of the image size."""
        from PIL import ImageDraw

        ((x, y),) = self._pixels(place[None])
        r = radius * self._size
        ImageDraw.Draw(picture).ellipse((x - r, y - r, x + r, y + r), fill=colour)

    def caption(self, picture: Image.Image, left: str, right: str) -> None:
        """Replace the two texts above the view."""
        from PIL import ImageDraw, ImageFont

        draw, font = ImageDraw.Draw(picture), ImageFont.load_default(size=0.5 * self._caption)
        draw.rectangle((0, 0, picture.width, self._caption - 1), fill="white")
        margin, middle = 0.2 * self._caption, 0.5 * self._caption
        draw.text((margin, middle), left, fill=TEXT, font=font, anchor="lm")
        draw.text((picture.width - margin, middle), right, fill=PLAN, font=font, anchor="rm")

    def _draw_axes(self, draw: ImageDraw.ImageDraw) -> None:
        """Arrows in the lower left corner: x to the right, y up."""
        from PIL import ImageFont

        inset, length, font = 0.03 * self._size, 0.05 * self._size, ImageFont.load_default(size=0.028 * self._size)
        x, y = inset, self._bottom - inset
        tip, width = 0.3 * length, max(1, round(0.003 * self._size))
        draw.line((x, y - length, x, y, x + length, y), fill=TEXT, width=width)
        draw.line((x + length - tip, y - tip / 2, x + length, y, x + length - tip, y + tip / 2), fill=TEXT, width=width)
        draw.line((x - tip / 2, y - length + tip, x, y - length, x + tip / 2, y - length + tip), fill=TEXT, width=width)
        draw.text((x + length + tip, y), "x", fill=TEXT, font=font, anchor="lm")
        draw.text((x, y - length - tip), "y", fill=TEXT, font=font, anchor="mb")

    def _pixels(self, points: FloatArray) -> list[tuple[float, float]]:
        across, up = ((points - self._low) * self._scale).T
        return list(zip(across.tolist(), (self._bottom - up).tolist(), strict=True))


def _limits(points: FloatArray, boxes: FloatArray) -> tuple[FloatArray, FloatArray]:
    """(2,) lower and upper corner of the view: the maze, or the extent of all points."""
    if len(boxes):
        return boxes[:, [0, 2]].min(axis=0), boxes[:, [1, 3]].max(axis=0)
    margin = 0.05 * max(float(np.ptp(points, axis=0).max()), 1e-6)
    return points.min(axis=0) - margin, points.max(axis=0) + margin


def write_gif(frames: Iterable[ImageArray], path: Path, fps: float = 25.0) -> Path:
    """Write (h, w, 3) uint8 frames atomically as a looping GIF."""
    from PIL import Image

    pictures = [Image.fromarray(frame) for frame in frames]
    if not pictures:
        raise VhdError(f"{path}: no frames to write.")
    # One palette for all frames, from the first, the middle and the last: a palette per frame would flicker.
    samples = np.concatenate([np.asarray(pictures[i]) for i in (0, len(pictures) // 2, -1)])
    palette = _palette(samples)
    first, *rest = (picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures)
    with atomic_path(path) as temporary:
        first.save(temporary, "GIF", save_all=True, append_images=rest, duration=1000.0 / fps, loop=0)
    return path


def _palette(samples: ImageArray) -> Image.Image:
    """A palette with the exact colours of flat areas, so that white stays white, and the best choice for the rest."""
    from PIL import Image

    colours, counts = np.unique(samples.reshape(-1, 3), axis=0, return_counts=True)
    flat = colours[np.argsort(-counts)[: _COLOURS // 4]]
    others = Image.fromarray(samples).quantize(_COLOURS - len(flat), Image.Quantize.MAXCOVERAGE, kmeans=2)
    palette = Image.new("P", (1, 1))
    palette.putpalette([*flat.flatten().tolist(), *(others.getpalette() or [])])
    return palette
