"""Hyperparameters of the paper's network: validated, and told apart from those of the other."""

import json
import subprocess
import sys
from dataclasses import asdict, replace

import numpy as np
import pytest
from safetensors.numpy import save_file

from poli.errors import InputError
from poli.estimation.architecture import Architecture
from poli.estimation.model import MODEL_FORMAT
from poli.estimation.pointnet2 import OBJECTS, PointNet2


@pytest.mark.parametrize("architecture", [PointNet2(), OBJECTS, Architecture(), replace(OBJECTS, mean=(1.0, 2.0, 3.0), floor=0.0)])
def test_a_table_gives_it_back(architecture):
    assert Architecture.from_dict(json.loads(json.dumps(asdict(architecture)))) == architecture


def test_a_table_without_a_kind_is_that_of_the_other_network():
    assert isinstance(Architecture.from_dict({}), Architecture)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "pointnet3"}, "expected pointnet2"),
        ({"radii": [0.1, 0.2]}, "one entry per level, 4 each"),
        ({"radii": [0.1, 0.2, 0.3, 0]}, "radii must be positive"),
        ({"centroids": []}, "1 to 8 levels"),
        ({"centroids": [8, 8, 8, 10**9]}, "sizes must be 1 to"),
        ({"channels": [[8], [8], [8], []]}, "a width for each layer"),
        ({"channels": [8, 8, 8, 8]}, "channels is 8"),
        ({"nearest": [8, 8, 8, 8.5]}, "nearest is 8.5"),
        ({"head": "32"}, "head is 32"),
        ({"head": True}, "head is True"),
        ({"scale": -1}, "at least 0"),
        ({"floor": float("nan")}, "at least 0|finite"),
        ({"mean": [0.0, 0.0]}, "three numbers"),
        ({"reach": 12}, "unknown reach"),
    ],
)
def test_nonsense_is_refused(change, message):
    with pytest.raises(InputError, match=message):
        Architecture.from_dict({"kind": "pointnet2", **change})


def test_without_torch_the_extra_is_named(tmp_path):
    small = PointNet2(centroids=(8,), radii=(1.0,), nearest=(4,), channels=((4,),), propagated=((4,),), head=4)
    tensors = {name: np.ones(shape, np.float32) for name, shape in small.tensor_shapes().items()}
    about = {"format": MODEL_FORMAT, "name": "small", "architecture": json.dumps(asdict(small)), "calibration": "1.0"}
    save_file(tensors, tmp_path / "m.safetensors", about)
    script = (
        "import importlib.util, numpy, poli\n"
        "known = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *more: None if name == 'torch' else known(name, *more)\n"
        "try:\n    poli.estimate(numpy.random.rand(20, 3), 'm.safetensors')\n"
        "except poli.PoliError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "the model 'small' (architecture pointnet2) needs" in done.stdout
    assert "poli[train]" in done.stdout
