"""`python -m benchmarks paper`: objects, global registration, times, likelihoods and pictures, on tiny data in the real layouts."""

import math
from dataclasses import replace
from importlib.resources import files
from importlib.util import find_spec

import numpy as np
import pytest

pytest.importorskip("torch")
from benchmarks.experiments import noise
from benchmarks.experiments.paper import NAMES, Options, run
from benchmarks.experiments.paper.numbers import TABLE2
from benchmarks.experiments.paper.sequences import sources
from benchmarks.experiments.paper.table2 import LIMITS, OURS, PAPER, PCA, WIDE_PCA, Job, at_best_voxels, denser, pooled
from benchmarks.rivals.denser_scans import RAW, TULIP
from benchmarks.rivals.registrars import KISS_MATCHER, TEASER
from paper_data import write_helipr, write_kitti_odometry
from pictures import read_picture
from poli.densification.samples import group
from poli.errors import InputError
from poli.estimation import estimate
from poli.worlds.shapes import procedural_mesh


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("paper")
    write_kitti_odometry(folder / "kitti")
    write_helipr(folder / "helipr")
    (folder / "stanford" / "test").mkdir(parents=True)
    for seed, name in enumerate(("dragon", "happy_buddha")):
        mesh = procedural_mesh(3_000_000 + seed, 32)
        lines = ["ply", "format ascii 1.0", f"element vertex {len(mesh.vertices)}", *(f"property float {axis}" for axis in "xyz")]
        lines += [f"element face {len(mesh.faces)}", "property list uchar int vertex_indices", "end_header"]
        lines += [" ".join(map(str, row)) for row in mesh.vertices.tolist()]
        lines += [" ".join(map(str, [3, *row])) for row in mesh.faces.tolist()]
        (folder / "stanford" / "test" / f"{name}.ply").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture
def options(data, monkeypatch):
    monkeypatch.setenv("POLI_NUM_THREADS", "1")
    return Options(
        kitti=data / "kitti", helipr=data / "helipr", stanford=data / "stanford", frames=(2,), voxels=(1.0,), pairs=1,
        sizes=(300, 400), repeats=1, steps=2, scans=4, runs=data / "runs",
    )  # fmt: skip


@pytest.fixture
def short_training(monkeypatch):
    """One training of `noise` instead of twelve, on two shapes."""
    whole = noise.read_config

    def small(path):
        config = whole(path)
        return replace(config, data=replace(config.data, procedural=2, resolution=16, validation_procedural=1))

    monkeypatch.setattr(noise, "read_config", small)
    monkeypatch.setattr(noise, "KINDS", {"T-Q-C": "tqc"})
    monkeypatch.setattr(noise, "LEVELS", (0.0,))


def reports(name, options):
    return list(run(replace(options, name=name)))


# --- registration of scans


def test_tables_2_and_3(options, monkeypatch):
    pytest.importorskip("kiss_matcher")
    (second,) = reports("table2", options)
    systems, ways = {KISS_MATCHER, TEASER}, {RAW, PCA, WIDE_PCA, TULIP, PAPER, OURS}
    assert {(r["dataset"], r["system"]) for r in second.records} == {(d, s) for d in ("kitti", "helipr") for s in systems}
    assert {r["way"] for r in second.records} == ways
    assert all(len(r["rotations_deg"]) == 1 for r in second.records)
    columns, rows = second.cells
    assert [row[2] for row in rows if row[0] == "HeLiPR" and row[1] == TEASER] == ["the paper", *LIMITS]
    paper = dict(zip(columns, next(row for row in rows if row[:3] == ["HeLiPR", TEASER, "the paper"]), strict=True))
    assert paper[RAW] == f"{TABLE2['helipr', 'TEASER']['raw']:.2f}" == "74.33"
    assert paper[PAPER] == "**81.67**"
    assert paper[OURS] == "-"
    (third,) = reports("table3", replace(options, scans=2))
    assert {(r["beams"], r["sequence"]) for r in third.records} == {(beams, "04") for beams in (16, 32, 64)}
    columns, rows = third.cells
    assert dict(zip(columns, rows[0], strict=True))["gain, the paper's samples"] == "+11.3 %"
    monkeypatch.setattr("benchmarks.experiments.paper.table2._register", lambda *_: pytest.fail("was kept"))
    assert [r.cells for r in reports("table3", replace(options, scans=2))] == [third.cells]


def test_samples_are_as_many_and_as_near_as_the_paper_says(options):
    for source, count, sigma in zip(sources(options, beams=16), (50, 40), (0.3, 0.1), strict=True):
        scan = source.open()[0].clean()
        centers, owners = group(scan.points.astype(np.float64), 0.2)
        field = estimate(centers, warn=False)
        dense = denser(options, Job(source, PAPER)).apply(scan)
        assert len(dense) == len(scan) + count * len(centers)
        # A sample is drawn around a return of its ellipsoid: relative to that return, it is within ten times the sigmas.
        offsets = dense.points[len(scan) :].astype(np.float64).reshape(len(centers), count, 3)
        of_one = owners == np.flatnonzero(np.bincount(owners) == 1)[0]
        row = owners[of_one][0]
        inverse = np.linalg.inv(field.covariances[row])
        d = offsets[row] - scan.points[of_one]
        reached = np.sqrt(np.einsum("ki,ij,kj->k", d, inverse, d)).max()
        assert 0.5 * 10.0 * sigma < reached < 1.05 * 10.0 * sigma
        near, wide = (denser(options, Job(source, way)).apply(scan) for way in (PCA, WIDE_PCA))
        assert len(near) == len(wide) == len(dense)
        away = [np.linalg.norm(d.points[len(scan) :].reshape(-1, count, 3) - centers[:, None], axis=2) for d in (near, wide)]
        assert np.median(away[1]) == pytest.approx(10.0 * np.median(away[0]), rel=0.05)


def test_a_registrar_has_the_voxel_size_that_registers_most_pairs():
    about = {"group": "KITTI", "system": TEASER, "way": RAW, "translations_m": [0.1, 3.0]}
    records = [{**about, "voxel": 0.3, "rotations_deg": [9.0, 9.0]}, {**about, "voxel": 1.0, "rotations_deg": [1.0, 20.0]}]
    chosen, voxels = at_best_voxels(records)
    assert (chosen, voxels) == ([records[1]], {("KITTI", TEASER, RAW): 1.0})
    assert [pooled(records[:1], limit) for limit in LIMITS] == [100.0, 0.0, 50.0]


# --- objects, and other experiments


def test_objects_with_several_models(options, data, monkeypatch):
    pytest.importorskip("kiss_matcher")
    shipped = next(path for path in files("poli").rglob("objects*.safetensors"))  # type: ignore[attr-defined]
    (data / "mine.safetensors").write_bytes(shipped.read_bytes())
    monkeypatch.setattr("benchmarks.experiments.objects._CLOUDS", 2)
    chosen = replace(options, models=("objects", str(data / "mine.safetensors")), sizes=(300,))
    registration, normals = reports("objects", chosen)
    assert (registration.name, normals.name) == ("paper_objects", "paper_objects_normals")
    rates = {(r["object"], r["method"]): r["success"] for r in registration.records}
    assert {name for name, _ in rates} == {"dragon", "happy_buddha"}
    assert rates["dragon", "mine + FPFH"] == rates["dragon", "POLI + FPFH"]  # the same weights
    errors = {r["method"]: r for r in normals.records if r["object"] == "dragon"}
    assert errors["mine"] == {**errors["POLI"], "method": "mine"}
    assert 1.0 < errors["POLI"]["nees"] < 9.0
    assert math.isnan(errors["PCA"]["nees"])
    with pytest.raises(InputError, match="two have the same name"):
        reports("objects", replace(chosen, models=("objects", "a/mine.safetensors", "b/mine.safetensors")))
    with pytest.raises(InputError, match=r"test/dragon.ply: no such file; .* DIR/test/\*.ply"):
        reports("objects", replace(chosen, stanford=data))


def test_pictures(options, data, tmp_path):
    pytest.importorskip("kiss_matcher")
    model = str(next(path for path in files("poli").rglob("lidar*.safetensors")))  # type: ignore[attr-defined]
    (report,) = reports("gallery", replace(options, tqc=(model,), ttqc=(model,)))
    assert [r["figure"] for r in report.records] == ["S1", "S3", "S4", "SE3"]
    for name, plot in report.plots.items():
        plot(tmp_path / f"{name}.png")
        picture = read_picture(tmp_path / f"{name}.png")
        assert all((panel < 200).any() for half in np.array_split(picture, 2) for panel in np.array_split(half, 2, axis=1))


def test_all_names_in_one_run(options, data, short_training, monkeypatch):
    monkeypatch.setattr("benchmarks.experiments.objects._CLOUDS", 1)
    found = {report.name: report for report in run(replace(options, name="all", scans=3))}
    expected = {f"paper_{name}" for name in NAMES} | {"paper_objects_normals", "paper_table_s1_nll", "paper_runtime_one_thread"}
    lacking = {"paper_runtime"} if find_spec("open3d") else {"paper_runtime", "paper_runtime_one_thread"}
    assert set(found) == expected - lacking
    for report in found.values():
        columns, rows = report.cells
        assert rows
        assert all(len(row) == len(columns) for row in rows)
    for name, said in (
        ("runtime_one_thread", "10 ms for 10000"),
        ("step", "73.9 ms"),
        ("relaxation", "scenario A"),
        ("noise", "T-T-Q-C"),
    ):
        assert f"paper_{name}" in lacking or said in found[f"paper_{name}"].notes[0]
