"""The probability that a pose is right: its evidence, and how it was fitted."""

import json
from pathlib import Path

import numpy as np
import pytest

from poli import se3
from poli.registration.presets import COEFFICIENTS
from poli.registration.verdict import SIGNS, Evidence, ScanSurface, evidence_of, looked_through, probability_of


def box(length, width, center=(0.0, 0.0)):  # -> ScanSurface
    """The four walls of a room of 3 m height, seen from inside, at points half a meter apart."""
    heights = np.arange(-1.0, 2.0, 0.5)
    points, normals = [], []
    for axis, size, other in ((0, length, width), (1, width, length)):
        for side in (-1.0, 1.0):
            along, z = (a.ravel() for a in np.meshgrid(np.arange(-other / 2 + 0.25, other / 2, 0.5), heights))
            wall, normal = np.zeros((len(z), 3)), np.zeros((len(z), 3))
            wall[:, axis], wall[:, 1 - axis], wall[:, 2] = side * size / 2, along, z
            normal[:, axis] = -side
            points.append(wall)
            normals.append(normal)
    points = np.concatenate(points) - [*center, 0.0]
    return ScanSurface(points, np.concatenate(normals), np.arange(len(points)))


def test_the_right_pose_has_all_evidence_for_it():
    here, there = box(12.0, 8.0), box(12.0, 8.0, center=(2.0, 1.0))
    T = se3.exp(np.array([0.0, 0.0, 0.0, -2.0, -1.0, 0.0]))
    right = evidence_of(here, there, T, 0.4, 0.5)
    assert right.agreement == 1.0
    assert right.contradiction == 0.0
    assert right.hold == pytest.approx(0.4)  # a short wall for every one and a half of a long one
    wrong = evidence_of(here, there, T @ se3.exp(np.array([0.0, 0.0, np.pi / 2, 0.0, 0.0, 0.0])), 0.4, 0.1)
    assert wrong.agreement < 0.3
    assert wrong.contradiction > 0.1
    assert probability_of(wrong, COEFFICIENTS[True]) < 0.5 < probability_of(right, COEFFICIENTS[True])


def test_a_wall_in_front_of_what_the_sensor_saw_is_a_contradiction():
    room = box(12.0, 12.0).points
    assert looked_through(0.5 * room, room, 0.4) == 1.0
    assert looked_through(2.0 * room, room, 0.4) == 0.0  # hidden
    assert looked_through(room, room, 0.4) == 0.0
    assert looked_through(np.array([[0.0, 0.0, 5.0]]), room, 0.4) == 0.0  # not in the field of view


def test_walls_along_which_a_pose_slides_do_not_hold_it():
    room = box(12.0, 8.0)
    along = np.abs(room.normals[:, 1]) > 0.5
    corridor = ScanSurface(room.points[along], room.normals[along], room.rows[along])
    assert evidence_of(corridor, corridor, np.eye(4), 0.4, 0.5).hold == 0.0


def test_lying_surfaces_count_only_without_a_vertical():
    ground = np.stack([*(a.ravel() for a in np.meshgrid(np.arange(10.0), np.arange(10.0))), np.full(100, -1.0)], axis=1)
    flat = ScanSurface(ground, np.tile([0.0, 0.0, 1.0], (100, 1)), np.arange(100))
    assert evidence_of(flat, flat, np.eye(4), 1.0, 0.5).agreement == 0.0
    assert evidence_of(flat, flat, np.eye(4), 1.0, 0.5, upright=False).agreement == 1.0


@pytest.mark.parametrize("upright", [True, False])
def test_more_evidence_never_speaks_for_the_opposite(upright):
    middle = Evidence(0.4, 0.2, 0.2, 0.3)
    assert 0.0 < probability_of(middle, COEFFICIENTS[upright]) < 1.0
    for number, sign in enumerate(SIGNS):
        assert COEFFICIENTS[upright][number + 1] * sign >= 0.0


def test_the_coefficients_are_those_of_the_benchmark():
    recorded = json.loads((Path(__file__).parents[2] / "docs" / "results" / "verdict.json").read_text())["coefficients"]
    assert {True: tuple(recorded["upright"]), False: tuple(recorded["any rotation"])} == COEFFICIENTS
