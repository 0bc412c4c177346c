"""A model as an ONNX file: the same covariances as the model, and a recipe that needs nothing else from this package."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import poli
from commands import run
from poli.estimation.architecture import Architecture
from poli.estimation.model import Model, read_model
from poli.estimation.ordered_cloud import Viewpoint, tree_of
from poli.kdtree.neighborhoods import CELL
from poli.voxels import voxel_downsample
from poli.worlds import SENSORS, scan_of

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")
from poli.train.export import export_onnx  # noqa: E402
from poli.train.tensors3 import eigh3  # noqa: E402
from tiny_training import cloud, exported  # noqa: E402

EXAMPLE = Path(__file__).parents[2] / "examples" / "onnx_inference.py"
# Small ones: torch takes long to export a large graph. The example below exports a shipped model.
ARCHITECTURES = {
    "sensor": Architecture(
        neighbors=(8, 12), edge=(8, 12), scalars=(12, 16), reach=12, wide=(6,), rounds=1, frames="sensor", log_scale=True,
        sensor=True, size=10,
    ),
    "object": Architecture(neighbors=(12,), edge=(10,), scalars=(9,), reach=12, rounds=1),
}  # fmt: skip


@pytest.fixture(scope="module", params=ARCHITECTURES)
def pair(request, tmp_path_factory) -> tuple[Model, Path]:
    """A model with random weights, and its file."""
    folder = tmp_path_factory.mktemp(request.param)
    model = read_model(exported(folder, ARCHITECTURES[request.param]))
    export_onnx(model, folder / "model.onnx")
    return model, folder / "model.onnx"


def feeds(points: np.ndarray, up: np.ndarray, architecture: Architecture) -> dict[str, np.ndarray]:  # (N, 3), (3,)
    """Levels and neighbors as computed by the package."""
    index = tree_of(points - points.mean(axis=0), architecture)
    rows = index.leaf_order.astype(np.int64)
    given = {"points": points.astype(np.float32)} | ({"up": up.astype(np.float32)} if architecture.sensor else {})
    for level, (k, _) in enumerate(architecture.searches(len(points))):
        if level > 0:
            lead = np.empty(len(rows), np.int64)
            lead[rows] = np.arange(len(rows)) // CELL
            given |= {f"centers{level}": rows[::CELL].copy(), f"lead{level}": lead}
            rows = np.arange(len(given[f"centers{level}"]))
        near = np.empty((len(rows), k), np.int64)
        near[rows] = rows[index.neighborhoods(*[(0, False)] * level, (k, True))[-1]]
        given[f"near{level}"] = near
    return given


@pytest.mark.parametrize("count", [200, 401])
def test_the_file_equals_the_model(pair, count):
    model, file = pair
    points = cloud(count, count).astype(np.float32).astype(np.float64)
    up = np.array([0.0, 0.6, 0.8])
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    (found,) = session.run(["covariances"], feeds(points, up, model.architecture))
    expected = model.estimate(points, Viewpoint(np.zeros(3), up)).covariances
    size = np.abs(expected).max(axis=(1, 2), keepdims=True)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found / size, expected / size, atol=1e-3)


def test_odd_clouds_have_ellipsoids_too(pair):
    """Duplicates, lines, and points straight above the sensor: no division by zero."""
    model, file = pair
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    line = np.arange(200.0)
    for points in (np.zeros((200, 3)), np.ones((200, 3)), np.outer(line, [0.0, 0.0, 1.0]), np.outer(line, [1.0, 2.0, 3.0])):
        (found,) = session.run(["covariances"], feeds(points, np.array([0.0, 0.0, 1.0]), model.architecture))
        assert np.isfinite(found).all()
        assert (np.linalg.eigvalsh(found.astype(np.float64))[:, 0] > 0).all()


def test_the_file_documents_its_contract_and_nothing_of_this_machine(pair):
    model, file = pair
    loaded = onnx.load(file)
    contract = json.loads({entry.key: entry.value for entry in loaded.metadata_props}["contract"])
    assert contract["calibration"] == model.calibration
    assert contract["near"] == [k for k, _ in model.architecture.searches(1_000_000)]
    for described, real in zip(contract["inputs"] + contract["outputs"], [*loaded.graph.input, *loaded.graph.output], strict=True):
        assert described["name"] == real.name
        assert described["shape"] == [d.dim_param or d.dim_value for d in real.type.tensor_type.shape.dim]
        assert described["meaning"]
    assert str(Path(__file__).parents[2]).encode() not in file.read_bytes()
    assert str(Path(torch.__file__).parent).encode() not in file.read_bytes()


def test_the_example_needs_neither_this_package_nor_torch(tmp_path):
    scan = voxel_downsample(scan_of("town", SENSORS["vlp16"], 2_000_003), 0.5)
    file, source, out = tmp_path / "lidar.onnx", tmp_path / "points.npy", tmp_path / "out.npy"
    text = run("export", str(file))
    assert text.startswith(str(file))
    assert "docs/export.md" in text
    assert len(text.splitlines()) == 1
    np.save(source, scan.points)
    alone = "import runpy, sys; sys.modules |= {'poli': None, 'torch': None}; sys.argv = sys.argv[1:]; "
    alone += "runpy.run_path(sys.argv[0], run_name='__main__')"  # a module set to None cannot be imported
    done = subprocess.run([sys.executable, "-c", alone, EXAMPLE, file, source, out], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found, expected = np.load(out).astype(np.float64), poli.estimate(scan)
    assert found.shape == (len(scan), 3, 3)
    assert np.isfinite(found).all()
    variances, axes = np.linalg.eigh(found)
    assert (variances[:, 0] > 0).all()
    cosine = np.abs(np.einsum("ni,ni->n", axes[:, :, 0], expected.normals))
    assert np.degrees(np.arccos(np.minimum(np.median(cosine), 1.0))) < 1.0


def test_axes_by_jacobi_equal_those_by_lapack(rng):
    R = np.linalg.qr(rng.standard_normal((200, 3, 3)))[0]
    flat = (R * [1e-8, 1.0, 1.0 + 1e-6]) @ np.swapaxes(R, 1, 2)
    loose = rng.standard_normal((200, 3, 3))
    odd = np.array([np.zeros((3, 3)), np.eye(3), np.diag([3.0, 1.0, 2.0]), 1e-200 * np.ones((3, 3)), 1e200 * np.ones((3, 3))])
    for matrices in (flat, loose + np.swapaxes(loose, 1, 2), odd):
        values, axes = (t.numpy() for t in eigh3(torch.from_numpy(matrices)))
        size = np.abs(matrices).max(axis=(1, 2)).clip(1e-300)
        np.testing.assert_allclose(values / size[:, None], np.linalg.eigvalsh(matrices) / size[:, None], atol=1e-14)
        np.testing.assert_allclose(np.swapaxes(axes, 1, 2) @ axes, np.broadcast_to(np.eye(3), axes.shape), atol=1e-14)
        again = (axes * (values / size[:, None])[:, None]) @ np.swapaxes(axes, 1, 2)
        np.testing.assert_allclose(again, matrices / size[:, None, None], atol=1e-14)
