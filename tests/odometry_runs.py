"""A short drive in memory and on disk, and `poli odometry` over it, for the tests of that command."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from poli.cli import app
from poli.io import datasets
from poli.worlds import Ride, Sensor, World
from poli.worlds.drive import Drive
from poli.worlds.places import make_place

COUNT = 8
VOXEL = 0.5
SENSOR = Sensor(tuple(np.linspace(-15.0, 15.0, 16)), 360, max_range=80.0, noise=0.02)


class Scans:
    """A dataset in memory. `before` is called with the index of each scan before it is read."""

    def __init__(self, scans, poses=None, before=None, skipped=()):
        self.name, self.scans, self.poses, self.before, self.skipped = "memory", list(scans), poses, before, skipped

    def __len__(self):
        return len(self.scans)

    def __getitem__(self, index):
        if self.before:
            self.before(index)
        return self.scans[index]

    def __iter__(self):
        return (self[i] for i in range(len(self)))


@pytest.fixture(scope="module")
def drive():
    return Drive(World(make_place("town", 2_000_003)), SENSOR, Ride(), COUNT, movers=False)


@pytest.fixture(scope="module")
def sweeps(drive):
    return [scan.keep("intensity") if "intensity" in scan.fields else scan.keep() for scan in drive]


@pytest.fixture
def open_as_memory(monkeypatch):
    """Make `--dataset memory` open this dataset."""

    def provide(dataset):
        monkeypatch.setitem(datasets._FACTORIES, "memory", lambda path: dataset)

    return provide


def run(*arguments, code=0):
    result = CliRunner().invoke(app, ["odometry", *map(str, arguments)])
    if code is not None and result.exit_code != code:
        raise AssertionError(f"exit code {result.exit_code}: {result.output}") from result.exception
    return result


def in_memory(tmp_path, *arguments, code=0):
    result = run(tmp_path, "--dataset", "memory", "--out", tmp_path / "run", "--voxel", VOXEL, *arguments, code=code)
    return result, json.loads((tmp_path / "run" / "summary.json").read_text())
