"""TULIP as reimplemented: range images, what the network starts from, and its training on tiny data."""

import json
import sys

import numpy as np
import pytest

pytest.importorskip("torch")
import torch

from benchmarks.__main__ import main
from benchmarks.experiments.tulip import loss
from benchmarks.rivals.tulip import (
    COLUMNS,
    RINGS,
    Upsampling,
    load,
    new_elevations,
    points_of_image,
    range_image,
    upsample,
    upsample_by,
)
from poli.errors import FormatError, InputError

ELEVATIONS = np.linspace(-15.0, 15.0, RINGS)
GROUND, WALL = 1.8, 12.0  # meters: depth of the ground, and distance of a round wall


def seen_from(elevations: np.ndarray) -> np.ndarray:  # (K,) degrees -> (K, COLUMNS) ranges
    """Ground within a round wall, without noise."""
    up = np.radians(elevations)
    ranges = np.minimum(WALL / np.cos(up), np.where(up < 0.0, GROUND / np.maximum(-np.sin(up), 1e-9), np.inf))
    return np.repeat(ranges[:, None], COLUMNS, axis=1).astype(np.float32)


def test_a_range_image_and_its_points_are_inverse():
    image = seen_from(ELEVATIONS)
    image[3, 10:30] = 0.0
    np.testing.assert_allclose(range_image(points_of_image(image, ELEVATIONS), ELEVATIONS), image, rtol=1e-6)
    near = np.vstack([points_of_image(image, ELEVATIONS), 0.5 * points_of_image(image, ELEVATIONS), np.zeros((1, 3))])
    np.testing.assert_allclose(range_image(near, ELEVATIONS), 0.5 * image, rtol=1e-6)


def test_an_untrained_network_interpolates_planes_exactly():
    """And a missing ring is replaced by the other one."""
    image = seen_from(ELEVATIONS)
    network = Upsampling()
    network.last.bias.data[2::6] = 50.0  # only the interpolation
    logs, logits, spreads = network(torch.from_numpy(image)[None], torch.from_numpy(ELEVATIONS.astype(np.float32))[None])
    assert logs.shape == logits.shape == spreads.shape == (1, RINGS - 1, 3, COLUMNS)
    found = logs[0].detach().exp().numpy()
    between = seen_from(new_elevations(ELEVATIONS)).reshape(found.shape)
    ground = [i for i in range(RINGS - 1) if image[i : i + 2].max() < 0.99 * WALL]
    assert len(ground) >= 2
    np.testing.assert_allclose(found[ground], between[ground], rtol=2e-3)
    image[4, :100] = 0.0
    logs, _, _ = network(torch.from_numpy(image)[None], torch.from_numpy(ELEVATIONS.astype(np.float32))[None])
    np.testing.assert_allclose(logs[0, 4, :, :100].detach().exp(), np.tile(image[5, :100], (3, 1)), rtol=1e-5)


def test_the_columns_go_around():
    network = Upsampling()
    torch.nn.init.normal_(network.last.weight)
    image = torch.from_numpy(seen_from(ELEVATIONS))[None] * torch.rand(
        1, RINGS, COLUMNS, generator=torch.Generator().manual_seed(0)
    )
    rows = torch.from_numpy(ELEVATIONS.astype(np.float32))[None]
    for one, turned in zip(network(image, rows), network(image.roll(64, dims=2), rows), strict=True):
        torch.testing.assert_close(one.roll(64, dims=3), turned, atol=1e-4, rtol=1e-4)


def test_the_loss_is_that_of_the_rows_left_out():
    rows = np.linspace(-15.0, 15.0, 61).astype(np.float32)
    truth = seen_from(rows)[:, :8]
    truth[5, :4] = 0.0
    image, elevations = torch.from_numpy(truth)[None], torch.from_numpy(rows)[None]
    network = Upsampling()
    logs, logits, spreads = (a[0].detach().double().numpy() for a in network(image[:, ::4], elevations[:, ::4]))
    distances, missing = [], []
    for gap, row, column in np.ndindex(RINGS - 1, 3, 8):
        at = (gap, row, column)
        value, scale = truth[4 * gap + 1 + row, column], np.exp(spreads[at]) + 1e-3
        chance = 1.0 / (1.0 + np.exp(-logits[at]))
        missing.append(-np.log(chance if value > 0.0 else 1.0 - chance))
        if value > 0.0:
            distances.append(abs(logs[at] - np.log(value)) / scale + np.log(scale))
    assert loss(network, image, elevations).item() == pytest.approx(np.mean(distances) + 0.3 * np.mean(missing), rel=1e-4)


def test_a_short_training_writes_weights_that_are_read_back(tmp_path, monkeypatch):
    weights = tmp_path / "tulip.safetensors"
    words = ["tulip", "--places", "town", "--worlds", "1", "--scans", "1", "--steps", "2", "--weights", str(weights)]
    monkeypatch.setattr("benchmarks.experiments.tulip._HELD_OUT", ("bridge",))
    monkeypatch.setattr(sys, "argv", ["benchmarks", *words, "--out", str(tmp_path)])
    main()
    records = json.loads((tmp_path / "tulip.json").read_text())["records"]
    assert {r["way"] for r in records} == {"interpolation", "TULIP"}
    points = points_of_image(seen_from(ELEVATIONS), ELEVATIONS)
    np.testing.assert_array_equal(upsample(points, ELEVATIONS, weights), upsample_by(load(weights), points, ELEVATIONS))
    with pytest.raises(InputError, match="16"):
        upsample(points, ELEVATIONS[::2], weights)
    with pytest.raises(FormatError, match="tulip"):
        load(tmp_path / "tulip.json")
