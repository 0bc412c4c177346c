"""A first scan: ellipsoids by the network and by PCA compared with the ground truth, a denser scan, and pictures.

    python examples/first_scan.py [FOLDER]

The scan is simulated: nothing has to be downloaded, and the ground truth is known. Cells begin with `# %%` and run one by one
in editors that support them. Pictures are written to FOLDER (default: `example_output`).
"""

# %% A 16-beam scan of a town not used for training. For your own file: scan = poli.read("scan.pcd")
import sys
from pathlib import Path

import numpy as np

import poli
from poli.viewer import Camera, normal_colors, render_ellipsoids, render_points, write_png
from poli.worlds import SENSORS, scan_of
from poli.worlds.sweep import true_normals

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "example_output")
folder.mkdir(parents=True, exist_ok=True)

VOXEL = 0.5  # meters
raw = scan_of("town", SENSORS["vlp16"], seed=2_000_003)
scan = poli.voxel_downsample(raw, VOXEL)
print(f"{len(raw)} returns, {len(scan)} points at voxels of {VOXEL} m, fields: {', '.join(scan.fields)}")

# %% One ellipsoid per point: by the network, and by PCA of the neighbors
fields = {"POLI": poli.estimate(scan), "PCA": poli.pca(scan, k=16)}

# %% Compare with the truth: angles between normals, ignoring sign. Leaves and returns between two surfaces have no true normal.
truth = true_normals(raw, VOXEL)  # (N, 3), row by row as in `scan`
known = np.isfinite(truth[:, 0])
for name, field in fields.items():
    cosine = np.abs(np.einsum("ij,ij->i", field.normals[known], truth[known]))
    angle = np.degrees(np.arccos(np.minimum(cosine, 1.0)))
    print(f"{name}: median normal error {np.median(angle):.1f} degrees, {np.mean(angle < 10):.0%} within 10 degrees")

# %% Thickness and width of the ellipsoids, in meters: standard deviations along the three axes
thin, _, wide = np.median(fields["POLI"].scales, axis=0)
print(f"POLI: the median ellipsoid is {100 * thin:.1f} cm thick and {100 * wide:.0f} cm wide (one sigma)")

# %% A denser scan for programs that do not use ellipsoids: originals first, then samples with their parents' fields
dense = poli.densify(scan.keep("ring", "time", "intensity"), per_point=7, max_sigma=2.0, voxel=0.0)
print(f"densified: {len(scan)} points in, {len(dense)} out")

# %% Pictures, colored by normals
camera = Camera(eye=(-16.0, -3.0, 9.0), target=(10.0, 1.0, -1.0), width=960, height=540, field_of_view=60.0)
colors = normal_colors(np.nan_to_num(truth))
pictures = {
    "points": render_points(scan.points, camera, colors, pixels=3),
    "poli": render_ellipsoids(fields["POLI"], camera, radius=2.0),
    "pca": render_ellipsoids(fields["PCA"], camera, radius=0.5),  # as wide as the neighborhoods; drawn smaller to match
    "dense": render_points(dense.points, camera, np.tile([0.3, 0.35, 0.4], (len(dense), 1)), pixels=1),
}
for name, picture in pictures.items():
    write_png(folder / f"first_scan_{name}.png", picture)

# %% Files
fields["POLI"].save(folder / "field.npz")  # poli.Ellipsoids.load reads it
fields["POLI"].write_splat(folder / "splats.ply")  # for Gaussian-splat viewers
poli.write(dense, folder / "dense.pcd")
print(f"{folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}")
