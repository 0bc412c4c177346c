"""Covariances of points by a file that `poli export` wrote: the recipe to port to C++. Needs numpy, scipy and onnxruntime only.

    python examples/onnx_inference.py model.onnx points.npy out.npy

points.npy is (N, 3), in metres. For a model of scans the sensor stands at the origin and z is up; if yours does not, subtract where
it stands, in double precision, and give another `up` below. out.npy is (N, 3, 3).
"""

import json
import sys

import numpy as np
import onnxruntime
from scipy.spatial import cKDTree


def thinned(points: np.ndarray, cell: int) -> tuple[np.ndarray, np.ndarray]:  # (N, 3) -> (M,), (N,)
    """One point in `cell`: who is kept, and for every point, which of the kept ones leads its cell.

    Points are halved along the longest side of their box, whole cells to the left, until a cell is left (std::nth_element in C++).
    A cell is led by the point nearest to its mean. This thins dense and sparse regions alike, which a voxel grid would not.
    """
    centres, lead = [], np.empty(len(points), np.int64)
    waiting = [np.arange(len(points))]
    while waiting:
        rows = waiting.pop()
        if len(rows) > cell:
            cells = -(-len(rows) // cell)
            middle = cell * ((cells + 1) // 2)
            along = points[rows, np.ptp(points[rows], axis=0).argmax()]
            order = np.argpartition(along, middle)
            waiting += [rows[order[middle:]], rows[order[:middle]]]
        else:
            away = ((points[rows] - points[rows].mean(axis=0)) ** 2).sum(axis=1)
            lead[rows] = len(centres)
            centres.append(rows[away.argmin()])
    return np.array(centres, np.int64), lead


def nearest_others(points: np.ndarray, k: int) -> np.ndarray:  # (N, 3) -> (N, k)
    """The k nearest of every point but itself, nearest first; nanoflann or any other k-d tree does it in C++."""
    _, found = cKDTree(points).query(points, k + 1)
    others = found != np.arange(len(points))[:, None]
    others[others.all(axis=1), -1] = False  # a point of many duplicates may not be among its own nearest
    return found[others].reshape(len(points), k).astype(np.int64)


def inputs(points: np.ndarray, up: np.ndarray, contract: dict) -> dict[str, np.ndarray]:  # (N, 3), (3,)
    """What the file asks for. Level 0 is every point; each further level thins the one below it."""
    if len(points) < contract["least_points"]:
        sys.exit(f"{len(points)} points; this model needs at least {contract['least_points']}")
    if contract["origin"] == "centroid":
        points = points - points.mean(axis=0)
    feeds = {"points": points.astype(np.float32)}
    if contract["origin"] == "sensor":
        feeds["up"] = up.astype(np.float32)
    for level, k in enumerate(contract["near"]):
        if level > 0:
            feeds[f"centres{level}"], feeds[f"lead{level}"] = thinned(points, contract["cell"])
            points = points[feeds[f"centres{level}"]]
        feeds[f"near{level}"] = nearest_others(points, k)
    return feeds


def main(model: str, source: str, out: str) -> None:
    # The first of these that this onnxruntime has: with onnxruntime-gpu, CUDA.
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
