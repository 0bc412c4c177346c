"""Facts about the shipped models: stated once, and the same everywhere."""

import json
from hashlib import sha256

import pytest
from typer.testing import CliRunner

from poli.cli import app
from poli.estimation.estimate import facts_of, load_model, model_card, shipped_file, shipped_models
from poli.worlds import SENSORS


@pytest.mark.parametrize("name", shipped_models())
def test_facts_match_the_file_and_the_card(name):
    found, card, weights = facts_of(name), model_card(name), shipped_file(name, ".safetensors").read_bytes()
    assert (found.sha256, found.bytes) == (sha256(weights).hexdigest(), len(weights))
    assert set(found.sensors) <= {*SENSORS, "any"}
    assert f"{found.weights:,} weights" in card
    assert f"L is multiplied by {found.calibration:.4f}" in card


def test_models_as_json():
    told = json.loads(CliRunner().invoke(app, ["models", "--json"]).stdout)["models"]
    assert [model["name"] for model in told] == list(shipped_models())
    one = json.loads(CliRunner().invoke(app, ["models", "lidar", "--json"]).stdout)
    assert one.pop("card") == model_card("lidar")
    assert one in told
    assert one["voxels"] == [0.2, 2.0]
    assert one["calibration"] == load_model("lidar").calibration


def test_one_name_prints_the_card():
    assert CliRunner().invoke(app, ["models", "lidar"]).stdout.strip() == model_card("lidar").strip()
