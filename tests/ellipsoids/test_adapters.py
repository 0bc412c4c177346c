"""Fields converted to other libraries' types, and other libraries' clouds as scans."""

import sys
from array import array
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import poli
from oracles import random_field
from poli.ellipsoids import Ellipsoids
from poli.errors import FormatError, InputError, MissingExtra
from poli.scan import Scan, points_of
from poli.voxels import voxel_downsample
from tiny_scans import room


def library(name, extra):
    return pytest.importorskip(name, reason=f"{name} is not installed: pip install 'poli[{extra}]'", exc_type=ImportError)


# --- exporting fields


def test_open3d_registers_by_the_covariances_of_the_field():
    """A round trip: export the ellipsoids, align by Open3D's GICP, and read the result back as points."""
    open3d = library("open3d", "adapters")
    points = room(1500, 0).points.astype(np.float64)
    T_true = poli.se3.exp(np.array([0.01, -0.02, 0.03, 0.05, -0.04, 0.03]))
    target = poli.pca(points, k=16).with_floor(0.02)
    source = target.transform(poli.se3.inverse(T_true)).to_open3d()
    np.testing.assert_array_equal(np.asarray(target.to_open3d().normals), target.normals)
    before = np.asarray(source.covariances).copy()
    registration = open3d.pipelines.registration
    found = registration.registration_generalized_icp(
        source, target.to_open3d(), 0.5, np.eye(4), registration.TransformationEstimationForGeneralizedICP(),
        registration.ICPConvergenceCriteria(max_iteration=50),
    )  # fmt: skip
    np.testing.assert_allclose(found.transformation, T_true, atol=1e-3)
    np.testing.assert_array_equal(np.asarray(source.covariances), before)  # those of the field, not recomputed by Open3D
    np.testing.assert_allclose(points_of(source.transform(found.transformation)), points, atol=5e-3)


def test_small_gicp_gets_its_own_means_and_covariances():
    small_gicp = library("small_gicp", "adapters")
    points = room(800, 0).points.astype(np.float64)
    field = poli.pca(points, k=16)
    cloud, tree = field.to_small_gicp(neighbors=12)
    np.testing.assert_array_equal(cloud.points()[:, :3], points)
    assert tree.nearest_neighbor_search(points[5] + 1e-6)[1] == 5
    # As the docstring says: changes in Python do not reach the cloud, and its content belongs to small_gicp.
    cloud.covs()[0][:] = 7.0
    cloud.normals()[:] = 7.0
    own = small_gicp.PointCloud(points)
    small_gicp.estimate_normals_covariances(own, num_neighbors=12)
    np.testing.assert_allclose(cloud.covs(), own.covs(), atol=1e-12)
    np.testing.assert_allclose(cloud.normals(), own.normals(), atol=1e-12)
    found = small_gicp.align(cloud, field.transform(poli.se3.exp(np.array([0, 0, 0.02, 0.05, 0, 0.0]))).to_small_gicp()[0], tree)
    np.testing.assert_allclose(found.T_target_source, poli.se3.exp(np.array([0, 0, -0.02, -0.05, 0, 0.0])), atol=5e-3)
    with pytest.raises(InputError, match="the field is empty"):
        field.select(np.zeros(0, int)).to_small_gicp()


@pytest.mark.filterwarnings("error")
def test_torch_shares_the_memory_of_a_field(rng):
    torch = library("torch", "train")
    field = random_field(rng, 30)
    means, covariances = field.to_torch()
    assert means.dtype == covariances.dtype == torch.float64
    assert (means.shape, covariances.shape) == ((30, 3), (30, 3, 3))
    np.testing.assert_array_equal(covariances.numpy(), field.covariances)
    assert means.data_ptr() == field.means.ctypes.data
    assert covariances.data_ptr() == field.covariances.ctypes.data
    own, _ = field.to_torch(copy=True)
    own += 1.0
    np.testing.assert_array_equal(means.numpy(), field.means)
    # Memory that its owner has locked is copied.
    locked = np.zeros((4, 3))
    locked.flags.writeable = False
    theirs, _ = Ellipsoids.trusted(locked, np.tile(np.eye(3), (4, 1, 1))).to_torch()
    theirs += 1.0
    assert not locked.any()


def test_rerun_draws_the_same_ellipsoids(rng):
    library("rerun", "view")
    field = random_field(rng, 25)
    drawn = field.to_rerun(sigma=2.0)
    half_sizes, centers, turns = (
        np.array(column.as_arrow_array().to_pylist()) for column in (drawn.half_sizes, drawn.centers, drawn.quaternions)
    )
    axes = Rotation.from_quat(turns).as_matrix()  # scalar last, as in rerun; as_matrix is a rotation by construction
    np.testing.assert_allclose(np.linalg.det(field.axes), 1.0)
    np.testing.assert_allclose(centers, field.means, rtol=1e-6)
    again = axes @ (np.eye(3) * (half_sizes[:, None, :] / 2.0) ** 2) @ np.swapaxes(axes, 1, 2)
    np.testing.assert_allclose(again, field.covariances, atol=1e-5 * np.abs(field.covariances).max())
    rgba = np.array(drawn.colors.as_arrow_array().to_pylist(), np.uint32)
    shown = np.stack([rgba >> 24 & 255, rgba >> 16 & 255, rgba >> 8 & 255], axis=1) / 255.0
    np.testing.assert_allclose(shown, 0.5 * (field.normals + 1.0), atol=0.5 / 255 + 1e-9)
    red = field.to_rerun(colors=np.tile([1.0, 0.0, 0.0], (25, 1)))
    assert red.colors.as_arrow_array().to_pylist() == [0xFF0000FF] * 25


@pytest.mark.parametrize(("module", "extra"), [("open3d", "adapters"), ("torch", "train"), ("rerun", "view")])
def test_a_missing_library_is_named(rng, monkeypatch, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtra, match=rf"Ellipsoids.to_{module} .*poli\[{extra}\]"):
        getattr(random_field(rng, 3), f"to_{module}")()


# --- importing clouds


def test_open3d_clouds_are_scans(rng):
    open3d = library("open3d", "adapters")
    points = rng.standard_normal((50, 3))
    cloud = open3d.geometry.PointCloud(open3d.utility.Vector3dVector(points))
    tensor = open3d.t.geometry.PointCloud(open3d.core.Tensor(points.astype(np.float32)))
    mesh = open3d.geometry.TriangleMesh.create_sphere(2.0, 8)
    np.testing.assert_array_equal(points_of(cloud), points)
    np.testing.assert_array_equal(Scan.of(tensor).points, points.astype(np.float32))
    np.testing.assert_allclose(np.linalg.norm(points_of(mesh), axis=1), 2.0)
    np.testing.assert_array_equal(poli.pca(cloud, k=8).covariances, poli.pca(points, k=8).covariances)
    with pytest.raises(InputError, match="source holds 0 points"):
        poli.register(open3d.geometry.PointCloud(), cloud)


def test_torch_tensors_are_scans(rng):
    torch = library("torch", "train")
    points = rng.standard_normal((40, 3))
    np.testing.assert_array_equal(points_of(torch.tensor(points)), points)
    np.testing.assert_array_equal(points_of(torch.tensor(points, requires_grad=True)), points)
    assert Scan.of(torch.tensor(points, dtype=torch.float32)).points.dtype == np.float32
    with pytest.raises(InputError, match=r"this torch\.Tensor cannot be converted"):
        points_of(torch.tensor(points, dtype=torch.bfloat16))
    with pytest.raises(InputError, match=r"shape \(3, 40\)"):
        points_of(torch.tensor(points.T.copy()))


def message(data, big=False, height=1, stamp=None):
    """A PointCloud2 of 5 points with a ring; `data` converts the bytes to the message's type."""
    layout = np.dtype([("x", "f4"), ("y", "f4"), ("z", "f4"), ("t", "u4"), ("channel", "u2")]).newbyteorder(">" if big else "<")
    records = np.zeros(5, layout)
    for number, axis in enumerate("xyz"):
        records[axis] = np.arange(5) + 0.5 * number
    records["t"], records["channel"] = np.arange(5) * 10_000_000, np.arange(5)
    records["x"][3] = np.nan
    codes = {"f4": 7, "u4": 6, "u2": 4}
    fields = [SimpleNamespace(name=n, offset=layout.fields[n][1], datatype=codes[layout[n].str[1:]], count=1) for n in layout.names]
    return SimpleNamespace(
        header=SimpleNamespace(stamp=stamp, frame_id="lidar"), height=height, width=5 // height, fields=fields, is_bigendian=big,
        point_step=layout.itemsize, row_step=5 * layout.itemsize, data=data(records.tobytes()), is_dense=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("data", "stamp"),
    [
        (bytes, SimpleNamespace(secs=7, nsecs=5)),  # rospy
        (lambda raw: array("B", raw), SimpleNamespace(sec=7, nanosec=5)),  # rclpy
        (lambda raw: np.frombuffer(raw, np.uint8), SimpleNamespace(sec=7, nanosec=5)),  # rosbags
        (list, None),
    ],
)
@pytest.mark.parametrize("big", [False, True])
def test_pointcloud2_messages_are_scans(data, stamp, big):
    scan = Scan.of(message(data, big, stamp=stamp))
    kept = np.array([0, 1, 2, 4])
    np.testing.assert_array_equal(scan.points, np.stack([kept, kept + 0.5, kept + 1.0], axis=1))
    assert scan.dropped.nonfinite == 1
    assert scan.stamp == (None if stamp is None else 7_000_000_005)
    np.testing.assert_array_equal(scan.fields["ring"], kept)
    assert scan.fields["t"].dtype == np.uint32
    np.testing.assert_array_equal(points_of(message(data, big)), scan.points)
    np.testing.assert_array_equal(voxel_downsample(message(data, big), 0.1, "first").fields["ring"], kept)


def test_reading_a_message_converts_its_times_to_seconds():
    scan = poli.read(message(bytes, stamp=SimpleNamespace(sec=7, nanosec=5)))
    np.testing.assert_allclose(scan.fields["time"], [0.0, 0.01, 0.02, 0.04])
    assert scan.stamp == 7_000_000_005
    with pytest.raises(FormatError, match="format='pcd' applies to files"):
        poli.read(message(bytes), format="pcd")


def test_damaged_messages_and_unsupported_objects_are_named():
    cut = message(lambda raw: raw[:20])
    with pytest.raises(FormatError, match=r"source: the PointCloud2 message: 1 rows of 5 points .* need 90 bytes"):
        points_of(cut, "source")
    with pytest.raises(InputError, match=r"'scan\.pcd' is a path; read it with poli\.read"):
        poli.estimate("scan.pcd")
    with pytest.raises(InputError, match=r"points is a types.SimpleNamespace; expected a Scan"):
        points_of(SimpleNamespace(xyz=np.zeros((3, 3))))
