"""User mistakes: each gives one line that names cause and remedy, exit code 2, and leaves no files behind."""

import io
import re
import sys
import tempfile

import numpy as np
import pytest

import poli
from poli.cli import main
from poli.io.datasets import write_kitti
from poli.scan import Scan
from tiny_scans import room

EXTRAS = {"las": "laspy", "ros": "rosbags", "train": "torch", "export": "onnx"}  # by the first package that is imported


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A folder with an example of every faulty input."""
    house = tmp_path_factory.mktemp("house")
    scan = room()
    for name in ("good.pcd", "good.npz"):
        poli.write(scan, house / name)
    poli.write(scan.points, house / "good.xyz")
    junk = np.random.default_rng(1).bytes(4001)
    for ending in ("bin", "las", "bag", "safetensors"):
        (house / f"junk.{ending}").write_bytes(junk)
    whole = (house / "good.pcd").read_bytes()
    (house / "cut.pcd").write_bytes(whole[: len(whole) // 2])
    (house / "empty.pcd").write_bytes(b"")
    poli.write(scan.points.astype(np.float64) + [691_000.0, 5_335_000.0, 500.0], house / "utm.npy")
    (np.random.default_rng(4).normal(size=(4000, 3)) * [30.0, 30.0, 1.0]).astype("<f4").tofile(house / "three.bin")
    (house / "nan.xyz").write_text("nan nan nan\n" * 50)
    poli.write(scan.points[:5], house / "five.xyz")
    poli.write(scan, house / "renamed.pcd")
    (house / "renamed.pcd").rename(house / "renamed.ply")
    (house / "good.teapot").write_bytes((house / "good.pcd").read_bytes())
    for name in ("nothing", "full", "scans", "mixed"):
        (house / name).mkdir()
    (house / "full" / "a").write_text("")
    for name in ("0.pcd", "1.pcd", "1.npz"):
        poli.write(scan, house / "mixed" / name)
    poses = np.tile(np.eye(4), (3, 1, 1))
    for sequence in ("00", "01"):
        write_kitti(house / "kitti", sequence, [Scan(scan.points)] * 3, poses)
    (house / "kitti" / "poses" / "01.txt").write_text("1 0 0 0 0 1 0 0 0 0 1 0\n")
    (house / "unknown_key.toml").write_text('name = "a"\nteapots = 3\n')
    (house / "no_number.toml").write_text('name = "a"\n[shapes]\nsteps = "many"\n')
    (house / "beams.txt").write_text("1.0\ntwo\n")
    poli.write(np.random.default_rng(2).normal(size=(400, 3)) * [9.0, 0.1, 0.1], house / "rod.xyz")
    poli.write(np.random.default_rng(3).normal(size=(400, 3)), house / "ball.xyz")
    return house


@pytest.fixture
def bags(house):
    """The same with bags that have clouds on two topics and on none."""
    pytest.importorskip("rosbags")
    from tiny_bags import CLOUD, STORES, TEXT, Writer1, cloud

    store = STORES["ros1"]
    for name, topics in (("two", ("/left", "/right")), ("none", ())):
        if (house / f"{name}.bag").exists():
            continue
        with Writer1(house / f"{name}.bag") as writer:
            for topic in topics:
                connection = writer.add_connection(topic, CLOUD, typestore=store)
                writer.write(connection, 1, store.serialize_ros1(cloud("ros1", 1), CLOUD))
            text = writer.add_connection("/chatter", TEXT, typestore=store)
            writer.write(text, 2, store.serialize_ros1(store.types[TEXT]("a"), TEXT))
    return house


@pytest.fixture
def mistake(house, monkeypatch, capsys):
    """Run a command in the folder; returns the one line that it prints."""
    monkeypatch.chdir(house)
    monkeypatch.setattr(tempfile, "tempdir", str(house))  # the buffer for `-` must be removed, too

    def run(command, code=2):
        before = {path: path.stat().st_mtime_ns for path in house.rglob("*")}
        with pytest.raises(SystemExit) as ended:
            main(command.split())
        told = capsys.readouterr()
        assert ended.value.code == code, told.err
        lines = [line for line in told.err.splitlines() if line.strip()]
        assert len(lines) == 1, told.err
        assert lines[0].startswith("poli: ")
        after = {path: path.stat().st_mtime_ns for path in house.rglob("*")}
        assert after.keys() == before.keys()
        assert [path.name for path in after if path.is_file() and after[path] != before[path]] == []
        return lines[0]

    return run


MISTAKES = [
    # the command line itself
    ("estimate good.pcd out.npz --voxle 1", r"no such option: --voxle.*--voxel"),
    ("estimate good.pcd out.npz --voxel -1", r"invalid value for '--voxel': "),
    ("estimate good.pcd out.npz --regularize ball", r"invalid value for '--regularize': 'ball'.*'plane'"),
    ("estimate", r"missing argument 'SCAN'.*`poli estimate --help`"),
    # scan files
    ("estimate no.pcd out.npz", r"no\.pcd: no such file"),
    ("estimate good.teapot out.npz", r"good\.teapot: .*\.pcd.* name its format"),
    ("estimate empty.pcd out.npz", r"empty\.pcd: the file is empty"),
    ("estimate junk.bin out.npz", r"junk\.bin: 4001 bytes are not a multiple of 16"),
    ("estimate three.bin out.npz", r"three\.bin: .*x y z intensity \(KITTI\).*x y z only; .*format='kitti'"),
    ("estimate cut.pcd out.npz", r"cut\.pcd: .*truncated"),
    ("estimate renamed.ply out.npz", r"renamed\.ply: .*pcd file; rename it or pass format='pcd'$"),
    ("estimate nan.xyz out.npz", r"nan\.xyz: no points are left: all 50 are non-finite"),
    ("estimate five.xyz out.npz", r"five\.xyz: 5 points; the network needs at least 16"),
    ("densify utm.npy out.npz", r"utm\.npy: .*points lie 5380 km from the origin"),
    # options of a scan
    ("estimate good.pcd out.npz --model lidr", r"model is 'lidr'; .*; did you mean lidar\?$"),
    ("estimate good.pcd out.npz --model junk.safetensors", r"junk\.safetensors: a damaged model file"),
    ("estimate good.pcd out.npz --k 10", r"k is 10; it is not for model 'lidar'"),
    ("estimate good.pcd out.npz --model pca --device cuda", r"--device cuda: PCA runs on the CPU"),
    ("estimate good.pcd out.npz --model pca --curvature", r"curvature is True; it is not for model 'pca'"),
    ("estimate good.pcd out.npz --curvature --device cuda", r"--curvature runs on the CPU"),
    ("models teapot", r"no shipped model 'teapot'; .*lidar"),
    # outputs
    ("estimate good.pcd out.pcd", r"out\.pcd: write fields as \.npz"),
    ("estimate good.pcd nowhere/out.npz", r"folder nowhere does not exist; create it first"),
    ("densify good.pcd good.pcd", r"good\.pcd: input and output are the same"),
    ("densify good.npz out.bin", r"intensity only.*\.pcd or \.npz"),
    ("densify kitti full", r"full: .*exists.* give another name"),
    ("densify kitti kitti/dense", r"dense: input and output are inside each other"),
    ("export lidar.teapot", r"lidar\.teapot: .*\.onnx"),
    ("estimate good.pcd - --json", r"--json: standard output cannot carry both"),
    ("convert good.npz out.bin", r"'\w+'; use \.pcd or \.npz.* --drop"),
    ("convert good.pcd out.teapot", r"out\.teapot: .*\.laz; rename it"),
    # simulated worlds
    ("simulate drive --sensor hdl64", r"sensor is 'hdl64'; .*; did you mean hdl64e\?$"),
    ("simulate drive --sensor beams.txt", r"beams\.txt, line 2: 'two' is not a number"),
    # datasets
    ("odometry nothing", r"nothing: the folder is empty"),
    ("odometry full", r"full: dataset type .*kitti, kitti_raw"),
    ("odometry mixed", r"mixed: .*\(1 \.npz, 2 \.pcd\); pass ending='pcd'"),
    ("odometry good.pcd", r"good\.pcd: .*single scan.* folder"),
    ("odometry kitti", r"00, 01; choose a `sequence`"),
    ("odometry scans --option topic", r"--option topic: expected KEY=VALUE"),
    ("odometry kitti --sequence 01", r"poses/01\.txt: 1 poses for 3 scans.* pass poses=False"),
    ("odometry kitti --sequence 00 --first 9", r"--first 9: .* has 3 scans"),
    ("densify kitti out --topic /points", r"--topic /points: .*bag; remove it"),
    # registration
    ("register rod.xyz ball.xyz", r"rod\.xyz and ball\.xyz: .*may not overlap.*`noise_bound`"),
    ("register - -", r"standard input holds one cloud; give the other as a file"),
    # training
    ("train no_number.toml", r"no_number\.toml: .*steps.*many"),
]


@pytest.mark.parametrize(("command", "said"), MISTAKES, ids=[command for command, _ in MISTAKES])
def test_a_mistake_is_one_line(mistake, command, said):
    if command.startswith("train"):
        pytest.importorskip("torch")
    assert re.search(said, mistake(command))


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("densify none.bag out.bag", r"none\.bag: .*PointCloud2"),
        ("odometry two.bag", r"topic.*/left, /right; choose one as `topic`$"),
        ("densify two.bag out.mcap --topic /left", r"the input is a"),
        ("odometry junk.bag", r"junk\.bag: not a ROS 1 bag"),
    ],
)
def test_a_mistake_with_bags(bags, mistake, command, said):
    assert re.search(said, mistake(command))


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        ("estimate junk.las out.npz", "las"),
        ("odometry junk.bag", "ros"),
        ("train unknown_key.toml", "train"),
        ("export lidar.onnx", "export"),
        ("estimate good.pcd out.npz --device cuda", "train"),
    ],
)
def test_a_missing_extra_is_named(mistake, monkeypatch, command, extra):
    missing = EXTRAS[extra]
    for name in [name for name in sys.modules if name == missing or name.startswith(f"{missing}.") or "poli.train" in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    assert f"pip install 'poli[{extra}]'" in mistake(command)


@pytest.mark.parametrize(
    ("sent", "said"),
    [
        (b"", "standard input: the file is empty"),
        (b"some words", "standard input: the header 'some words' must name"),
    ],
)
def test_nonsense_from_a_pipe(mistake, monkeypatch, sent, said):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(sent)))
    assert re.search(said, mistake("estimate - out.npz"))


def test_a_terminal_is_not_a_pipe(mistake, monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    assert "standard input is a terminal; pipe a scan into it" in mistake("estimate - out.npz")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert "standard output is a terminal" in mistake("estimate good.pcd -")


def test_a_bug_is_reported_as_one_and_shown_on_demand(mistake, monkeypatch, capsys):
    def broken(path, format=None):
        raise ZeroDivisionError("of seven\nby nothing")

    monkeypatch.setattr("poli.io.formats.read", broken)
    said = mistake("estimate good.pcd out.npz", code=1)
    assert said.startswith("poli: a bug in poli, ZeroDivisionError: of seven by nothing; ")
    assert "--debug" in said
    with pytest.raises(SystemExit) as ended:
        main(["estimate", "good.pcd", "out.npz", "--debug"])
    assert ended.value.code == 1
    assert 'raise ZeroDivisionError("of seven' in capsys.readouterr().err
