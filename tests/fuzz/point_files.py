"""Files of points, ellipsoids, meshes and trajectories."""

from __future__ import annotations

import datetime
import io
import zipfile
from functools import partial
from pathlib import Path

import numpy as np

import poli
from other_encodings import PCD, PLY, write_encoded
from poli import Ellipsoids, Scan
from poli.io.formats.numpy_files import write_npz
from poli.io.trajectory_files import TrajectoryWriter, read_kitti, read_tum
from poli.se3 import exp
from poli.worlds.shapes import read_mesh

from .damage import BINARY, Rng, Target, Tree, check_finite, damage_files, damaged, only_file, tree_of


def scan(count: int = 50, seed: int = 0) -> Scan:
    rng = np.random.default_rng(seed)
    fields = {"intensity": rng.uniform(0, 255, count).astype(np.float32), "ring": (np.arange(count) % 16).astype(np.float32)}
    return Scan(rng.normal(0.0, 5.0, (count, 3)).astype(np.float32), fields, stamp=1_691_936_557_946_849_179)


def _points(ending: str, folder: Path) -> list[Tree]:
    """A few files with the same extension, each in a separate tree."""
    small, large = scan(20), scan(300, 1)
    for name, cloud in (("a", small), ("b", large)):
        path = folder / f"{name}{ending}"
        if ending in (".pcd", ".ply"):
            for encoding in PCD if ending == ".pcd" else PLY:
                write_encoded(folder / f"{name}_{encoding}{ending}", cloud, encoding)
        elif ending == ".npz":
            write_npz(path, cloud)
            write_npz(folder / f"{name}_packed.npz", cloud, compressed=True)
        elif ending == ".npy":
            poli.write(cloud, path)
            np.save(folder / f"{name}_plain.npy", cloud.points)
        elif ending in (".las", ".laz"):
            _write_las(folder, name, ending, cloud)
        else:
            poli.write(cloud if ending != ".bin" else cloud.keep("intensity"), path)
    return [{path.name: path.read_bytes()} for path in sorted(folder.iterdir())]


def _write_las(folder: Path, name: str, ending: str, cloud: Scan) -> None:
    """Records of several kinds, with and without extra dimensions."""
    import laspy

    for kind, version in ((0, "1.2"), (3, "1.2"), (6, "1.4"), (7, "1.4")):
        header = laspy.LasHeader(point_format=kind, version=version)
        header.creation_date = datetime.date(2024, 1, 1)
        header.scales, header.offsets = np.full(3, 1e-3), np.zeros(3)
        if kind in (3, 6):
            header.add_extra_dim(laspy.ExtraBytesParams(name="ring", type=np.uint16))
        las = laspy.LasData(header)
        las.x, las.y, las.z = cloud.points.T.astype(float)
        las.intensity = cloud.fields["intensity"].astype(np.uint16)
        las.write(str(folder / f"{name}{kind}{ending}"))


def _read_scan(folder: Path) -> object:
    found = poli.read(only_file(folder))
    check_finite("points", found.points)
    return found


def _damage_npz(tree: Tree, rng: Rng, others: list[Tree]) -> Tree:
    """Damage the file as a whole, or an array inside it with valid checksums."""
    if rng.random() < 0.4:
        return damage_files(tree, rng, others)
    ((name, data),) = tree.items()
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as before, zipfile.ZipFile(out, "w") as after:
        names = before.namelist()
        chosen = names[int(rng.integers(len(names)))]
        for member in names:
            content = before.read(member)
            if member == chosen:
                content = damaged(content, rng, before.read(names[0]), BINARY)
            after.writestr(zipfile.ZipInfo(member), content, before.getinfo(member).compress_type)
    return {name: out.getvalue()}


def _field() -> Ellipsoids:
    rng = np.random.default_rng(2)
    A = rng.normal(size=(40, 3, 3))
    return Ellipsoids(rng.normal(size=(40, 3)), A @ np.swapaxes(A, 1, 2) + 0.1 * np.eye(3))


def _fields(ending: str, folder: Path) -> list[Tree]:
    field = _field()
    if ending == ".npz":
        field.save(folder / "field.npz")
    else:
        field.write_ply(folder / "field.ply")
    return [tree_of(folder)]


def _read_field(folder: Path) -> object:
    found = Ellipsoids.load(only_file(folder))
    check_finite("field", found.means, found.covariances)
    return found


def _meshes(ending: str, _folder: Path) -> list[Tree]:
    corners = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [0.5, 0.5, 1]]
    faces = [[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4]]
    if ending == ".obj":
        lines = [f"v {x} {y} {z}" for x, y, z in corners] + ["vn 0 0 1", "f 1//1 2//1 3//1 4//1", "f -5 -4 \\", "-1"]
        return [{"a.obj": "\n".join(lines + [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in faces]).encode()}]
    trees: list[Tree] = []
    for encoding in ("ascii", "binary_little_endian", "binary_big_endian"):
        head = f"ply\nformat {encoding} 1.0\nelement vertex 5\nproperty float x\nproperty float y\nproperty float z\n"
        head += "element face 4\nproperty list uchar int vertex_indices\nend_header\n"
        order = ">" if encoding.endswith("big_endian") else "<"
        body = np.array(corners, f"{order}f4").tobytes()
        body += b"".join(b"\3" + np.array(face, f"{order}i4").tobytes() for face in faces)
        text = "".join(" ".join(map(str, row)) + "\n" for row in [*corners, *([3, *face] for face in faces)]).encode()
        trees.append({f"{encoding}.ply": head.encode() + (text if encoding == "ascii" else body)})
    return trees


def _read_mesh(folder: Path) -> object:
    found = read_mesh(only_file(folder))
    check_finite("mesh", found.vertices)
    return found


def _poses(kind: str, folder: Path) -> list[Tree]:
    rng = np.random.default_rng(3)
    with TrajectoryWriter(folder / f"{kind}.txt", kind) as file:
        for i in range(12):
            file.append(exp(rng.normal(size=6)), None if kind == "kitti" else 1_691_936_557_946_849_179 + i * 10**8)
    return [tree_of(folder)]


def _read_poses(kind: str, folder: Path) -> object:
    path = only_file(folder)
    poses = read_kitti(path) if kind == "kitti" else read_tum(path)[1]
    check_finite("poses", poses)
    return poses


_ENDINGS = (".bin", ".pcd.bin", ".pcd", ".ply", ".xyz", ".csv", ".txt", ".npy", ".las", ".laz")

TARGETS = (
    *(
        Target(
            f"points {e}", partial(_points, e), _read_scan, damage_files, True, 3 if e in (".pcd", ".ply", ".laz", ".las") else 2
        )
        for e in _ENDINGS
    ),
    Target("points .npz", partial(_points, ".npz"), _read_scan, _damage_npz, True, 3),
    Target("field .npz", partial(_fields, ".npz"), _read_field, _damage_npz, True),
    Target("field .ply", partial(_fields, ".ply"), _read_field, damage_files, True),
    Target("mesh .obj", partial(_meshes, ".obj"), _read_mesh, damage_files, True),
    Target("mesh .ply", partial(_meshes, ".ply"), _read_mesh, damage_files, True, 2),
    *(Target(f"poses {k}", partial(_poses, k), partial(_read_poses, k), damage_files, True) for k in ("tum", "kitti")),
)
