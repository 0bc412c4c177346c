"""Estimate covariances with a model from `poli export`: a recipe to port to C++. Needs only numpy, scipy and onnxruntime.

    python examples/onnx_inference.py model.onnx points.npy out.npy

points.npy is (N, 3), in meters. Models of scans expect the sensor at the origin and z up; otherwise subtract the sensor's position,
in double precision, and change `up` below. out.npy is (N, 3, 3).
"""

import json
import sys

import numpy as np
import onnxruntime
from scipy.spatial import cKDTree


def leaf_order(points: np.ndarray, cell: int) -> np.ndarray:  # (N, 3) -> (N,)
    """Order the points so that each `cell` consecutive points form a cell; the first of a cell is the one nearest to its mean.

    Points are halved along the longest side of their box (std::nth_element in C++), whole leaves of cell * cell points to the left,
    then whole cells. So only the last cell may be smaller. Every cell-th point gives a downsampled cloud that, unlike a voxel grid,
    thins dense and sparse regions alike; every cell-th point of that is the next level.
    """
    order: list[np.ndarray] = []
    waiting = [np.arange(len(points))]
    while waiting:
        rows = waiting.pop()
        if len(rows) > cell:
            unit = cell * cell if len(rows) > cell * cell else cell
            units = -(-len(rows) // unit)  # rounded up
            middle = unit * ((units + 1) // 2)
            along = points[rows, np.ptp(points[rows], axis=0).argmax()]
            halves = np.argpartition(along, middle)
            waiting += [rows[halves[middle:]], rows[halves[:middle]]]  # the left one is processed first
        else:
            away = ((points[rows] - points[rows].mean(axis=0)) ** 2).sum(axis=1)
            order.append(np.roll(rows, -away.argmin()))
    return np.concatenate(order)


def in_own_axes(points: np.ndarray) -> np.ndarray:  # (N, 3), seen from their centroid -> (N, 3)
    """Rotate into the principal axes, oriented towards the farther points: makes the downsampling rotation invariant."""
    turned = points @ np.linalg.eigh(points.T @ points)[1]
    return turned * np.where((turned**3).sum(axis=0) < 0.0, -1.0, 1.0)


def nearest_others(points: np.ndarray, k: int) -> np.ndarray:  # (N, 3) -> (N, k)
    """The k nearest neighbors of each point, excluding itself, nearest first; in C++, use nanoflann or any other k-d tree."""
    _, found = cKDTree(points).query(points, k + 1)
    others = found != np.arange(len(points))[:, None]
    others[others.all(axis=1), -1] = False  # a point with many duplicates may not be among its k nearest
    return found[others].reshape(len(points), k).astype(np.int64)


def inputs(points: np.ndarray, up: np.ndarray, contract: dict) -> dict[str, np.ndarray]:  # (N, 3), (3,)
    """The inputs of the model. Level 0 has all points in the caller's order; each further level keeps one in `cell`."""
    if len(points) < contract["least_points"]:
        sys.exit(f"{len(points)} points; this model needs at least {contract['least_points']}")
    if contract["origin"] == "sensor":
        feeds = {"points": points.astype(np.float32), "up": up.astype(np.float32)}
        order = leaf_order(points, contract["cell"])
    else:
        points = points - points.mean(axis=0)
        feeds = {"points": points.astype(np.float32)}
        order = leaf_order(in_own_axes(points), contract["cell"])
    for level, k in enumerate(contract["near"]):
        if level > 0:
            feeds[f"centers{level}"] = order[:: contract["cell"]]
            feeds[f"lead{level}"] = np.empty(len(order), np.int64)
            feeds[f"lead{level}"][order] = np.arange(len(order)) // contract["cell"]
            points = points[feeds[f"centers{level}"]]
            order = np.arange(len(points))  # from here on, points are in leaf order
        feeds[f"near{level}"] = nearest_others(points, k)
    return feeds


def main(model: str, source: str, out: str) -> None:
    # Use the first provider that this onnxruntime has: CUDA with onnxruntime-gpu.
    known = onnxruntime.get_available_providers()
    session = onnxruntime.InferenceSession(
        model, providers=[p for p in ("CUDAExecutionProvider", "CPUExecutionProvider") if p in known]
    )
    contract = json.loads(session.get_modelmeta().custom_metadata_map["contract"])
    points = np.load(source).astype(np.float64)
    (covariances,) = session.run(["covariances"], inputs(points, np.array([0.0, 0.0, 1.0]), contract))
    np.save(out, covariances)
    print(f"{out}: {len(covariances)} covariances by model {contract['model']}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
