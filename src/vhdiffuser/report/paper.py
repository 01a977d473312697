"""The paper's Table II as data: (SR in %, AES in steps) by protocol, method and environment."""

from __future__ import annotations

ENVIRONMENTS: dict[str, str] = {
    "maze2d-umaze": "U",
    "maze2d-medium": "M",
    "maze2d-large": "L",
    "antmaze-medium": "Ant",
    "cube": "Cube",
}
"""Environment name -> the paper's column."""

METHOD_LABELS: dict[str, str] = {
    "vhd": "VHD",
    "fh-lp": "FH+LP",
    "fh-h1": "FH-H1",
    "fh-h2": "FH-H2",
    "fh-h3": "FH-H3",
}
METHOD_LABELS |= {f"{method}-paper": f"{label}, recipe paper" for method, label in METHOD_LABELS.items()}
"""Method -> the paper's row; each also with networks of the recipe `paper`."""

PROTOCOL_LABELS: dict[str, str] = {"ss": "SS", "rp": "RP"}
"""Protocol -> the paper's abbreviation."""

_SR = {
    ("ss", "vhd"): (97.1, 93.1, 91.0, 82.2, 86.9),
    ("ss", "fh-lp"): (93.2, 88.8, 80.4, 72.1, 86.2),
    ("ss", "fh-h1"): (63.3, 84.7, 79.8, 75.8, 74.2),
    ("ss", "fh-h2"): (95.5, 94.5, 93.8, 79.9, 84.9),
    ("ss", "fh-h3"): (96.0, 92.4, 85.9, 76.8, 87.0),
    ("rp", "vhd"): (100.0, 98.7, 99.6, 95.7, 98.2),
    ("rp", "fh-lp"): (99.9, 95.0, 98.8, 94.0, 97.4),
    ("rp", "fh-h1"): (88.6, 94.6, 98.9, 94.4, 97.8),
    ("rp", "fh-h2"): (99.4, 97.2, 99.6, 91.6, 97.9),
    ("rp", "fh-h3"): (99.0, 95.2, 96.2, 89.5, 97.9),
}

_AES = {
    ("ss", "vhd"): (112.73, 230.02, 245.84, 152.79, 50.87),
    ("ss", "fh-lp"): (114.24, 232.45, 250.52, 143.94, 52.98),
    ("ss", "fh-h1"): (55.47, 169.60, 221.17, 209.87, 30.19),
    ("ss", "fh-h2"): (100.75, 243.81, 319.31, 307.32, 56.73),
    ("ss", "fh-h3"): (140.61, 326.68, 422.93, 413.50, 111.15),
    ("rp", "vhd"): (139.96, 319.96, 285.66, 518.31, 77.51),
    ("rp", "fh-lp"): (159.92, 390.86, 358.94, 664.86, 90.59),
    ("rp", "fh-h1"): (238.82, 305.98, 300.40, 681.07, 63.08),
    ("rp", "fh-h2"): (163.23, 372.10, 427.02, 994.62, 87.47),
    ("rp", "fh-h3"): (219.36, 508.97, 639.69, 1227.04, 139.20),
}

TABLE_II: dict[tuple[str, str, str], tuple[float, float]] = {
    (environment, method, protocol): (_SR[protocol, method][column], _AES[protocol, method][column])
    for column, environment in enumerate(ENVIRONMENTS)
    for protocol, method in _SR
}
"""(environment, method, protocol) -> (SR in %, AES)."""
