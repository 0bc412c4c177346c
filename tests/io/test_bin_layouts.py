"""Headerless .bin files: inferring the number of columns from the values."""

import numpy as np
import pytest

import poli
from poli import Scan
from poli.errors import FormatError


def _street(rng, count, shuffled=False):
    """(count, 5) float32: x y z intensity ring, ordered like a spinning sensor or shuffled."""
    around, ring = np.linspace(0.0, 12.0 * np.pi, count), np.arange(count) % 32
    away = np.minimum(1.8 / np.maximum(np.tan((12.0 - ring) / 40.0), 0.02), 70.0) * rng.uniform(0.5, 1.0, count)
    columns = [away * np.cos(around), away * np.sin(around), rng.uniform(-1.8, 3.0, count), rng.integers(0, 256, count), ring]
    rows = np.column_stack(columns).astype("<f4")
    return rng.permutation(rows) if shuffled else rows


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("count", [420, 6000, 100_000])  # a size that every number of columns divides
def test_the_layout_is_inferred_from_the_values(tmp_path, rng, count, shuffled):
    rows = _street(rng, count, shuffled)
    rows.tofile(tmp_path / "five.bin")
    five = poli.read(tmp_path / "five.bin")
    assert list(five.fields) == ["intensity", "ring"]
    np.testing.assert_array_equal(five.fields["ring"], rows[:, 4])
    rows[:, :4].tofile(tmp_path / "four.bin")
    assert poli.read(tmp_path / "four.bin").fields.keys() == {"intensity"}
    rows[:, :3].tofile(tmp_path / "three.bin")
    with pytest.raises(FormatError, match=r"three\.bin: .*x y z intensity \(KITTI\).*x y z only"):
        poli.read(tmp_path / "three.bin")


def test_an_explicit_layout_wins(tmp_path, rng):
    rows = _street(rng, 1200)
    rows.tofile(tmp_path / "five.bin")
    assert poli.read(tmp_path / "five.bin", format="kitti").fields.keys() == {"intensity"}
    rows[:, 4] += 0.5  # no rings
    rows.tofile(tmp_path / "time.bin")
    with pytest.raises(FormatError, match=r"like 5 columns of float32; .*format='nuscenes'"):
        poli.read(tmp_path / "time.bin")


@pytest.mark.parametrize("intensity", [0.0, 0.37, 65535.0])
def test_a_kitti_file_is_never_taken_for_another(tmp_path, rng, intensity):
    for count in (60, 300, 6000):
        for points in (rng.normal(size=(count, 3)), _street(rng, count)[:, :3] * 1e3, rng.integers(0, 9, (count, 3)) + 1):
            scan = Scan(points.astype(np.float32), {"intensity": np.full(count, intensity, np.float32)})
            poli.write(scan, tmp_path / "a.bin")
            assert len(poli.read(tmp_path / "a.bin")) == count
