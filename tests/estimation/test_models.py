"""Facts about the shipped models: stated once, and the same everywhere."""

import json
from hashlib import sha256

import pytest
from typer.testing import CliRunner

from poli.cli import app
from poli.errors import InputError
from poli.estimation.estimate import facts_of, load_model, model_card, shipped_file, shipped_models
from poli.worlds import SENSORS


@pytest.mark.parametrize("name", shipped_models())
def test_facts_match_the_file_and_the_card(name):
    found, card, weights = facts_of(name), model_card(name), shipped_file(name, ".safetensors").read_bytes()
    assert (found.sha256, found.bytes) == (sha256(weights).hexdigest(), len(weights))
    assert set(found.sensors) <= {*SENSORS, "any"}
    assert f"{found.weights:,} weights" in card
    assert f"{found.multiply_adds / 1e3:.0f} thousand multiply-adds" in card
    assert found.multiply_adds <= 80_000
    assert f"L is multiplied by {found.calibration:.4f}" in card
    assert f"sha256 {found.sha256[:16]}" in card
    assert card.replace("\n", " ").startswith(f"# {name}  {found.about}")
    assert found.data_license.startswith("MIT")
    assert "MIT" in card[card.index("## License") :]
    if found.voxels is not None:
        assert f"{found.voxels[0]:g} to {found.voxels[1]:g} m" in found.about
        assert f"{found.spacing[0]:g} to {found.spacing[1]:g} m apart" in card


def test_models_as_text():
    text = CliRunner().invoke(app, ["models"]).stdout
    for name in shipped_models():
        found = facts_of(name)
        assert name in text
        assert found.sha256[:12] in text
        assert f"{found.calibration:.4f}" in text
        assert f"{found.weights:,} weights" in text
    for word in ("sensors", "voxel sizes", "results", "license of data", "hdl64e", "0.2 to 2 m", "tuned"):
        assert word in text


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
    for arguments in (["models", "none"], ["models", "none", "--json"]):
        result = CliRunner().invoke(app, arguments)
        assert isinstance(result.exception, InputError)
        assert "lidar, objects" in str(result.exception)
