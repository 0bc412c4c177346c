"""The page of the demo: the points, PCA, POLI and the truth side by side."""

from __future__ import annotations

from pathlib import Path

from poli.show.demo.normals import Fields, NormalFigures
from poli.show.demo.pictures import DISC, SIGMA
from poli.show.page import write_page
from poli.show.panel import Panel, flat_discs
from poli.show.render import Camera

_CAMERA = Camera(eye=(-23.0, -2.0, 14.0), target=(8.0, 0.0, 1.5), field_of_view=64.0)  # leaves the captions some sky


def write_demo_page(path: Path, fields: Fields, figures: NormalFigures) -> None:
    poli, pca = figures.poli, figures.pca
    panels = [
        Panel("Points", fields.cloud, caption=f"One in every {figures.voxel:g} m voxel"),
        Panel(
            "PCA",
            field=fields.pca,
            sigma_scale=fields.pca_scale,
            caption=f"Normals off by {pca.median:.1f}° (median); drawn smaller, at POLI's size",
        ),
        Panel(
            "POLI", field=fields.poli, caption=f"Normals off by {poli.median:.1f}° (median), {figures.lower:.0%} less than PCA's"
        ),
        Panel(
            "Truth", field=flat_discs(fields.cloud, fields.truth, DISC), caption="Discs across the true normals; leaves have none"
        ),
    ]
    note = (
        "A VLP-16's scan of a simulated town that the network never saw. "
        f"PCA's ellipsoids ({figures.pca_k} neighbours) are as wide as their neighbourhoods; they are drawn smaller."
    )
    write_page(path, "A scan as ellipsoids", panels, note=note, sigma=SIGMA, theme="dark", camera=_CAMERA)
