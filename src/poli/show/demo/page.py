"""The page of the demo: the points, PCA, POLI and the truth side by side."""

from __future__ import annotations

from pathlib import Path

from poli.show.demo.normals import Fields, NormalFigures
from poli.show.demo.pictures import CAMERA, DISC, SIGMA
from poli.show.page import write_page
from poli.show.panel import Panel, flat_discs


def write_demo_page(path: Path, fields: Fields, figures: NormalFigures) -> None:
    poli, pca = figures.poli, figures.pca
    panels = [
        Panel("Points", fields.cloud, caption=f"A 16-beam scan, one point in every {figures.voxel:g} m voxel"),
        Panel(
            "PCA",
            field=fields.pca,
            sigma_scale=fields.pca_scale,
            caption=f"{figures.pca_k} neighbours: normals off by {pca.median:.1f}° (median). Its ellipsoids are as wide as their "
            "neighbourhoods; they are drawn smaller, at about the size of POLI's",
        ),
        Panel("POLI", field=fields.poli, caption=f"Normals off by {poli.median:.1f}° (median), {figures.lower:.0%} less than PCA's"),
        Panel(
            "Truth",
            field=flat_discs(fields.cloud, fields.truth, DISC),
            caption="Discs across the true normals; only their direction tells something. Leaves have none",
        ),
    ]
    note = "A simulated town that the network never saw, scanned by a VLP-16. Drag to turn, wheel to zoom, 1 to 4 for one panel alone."
    write_page(path, "A scan as ellipsoids", panels, note=note, sigma=SIGMA, theme="light", camera=CAMERA)
