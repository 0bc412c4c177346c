"""The names that `import poli` offers, and agreement of signatures with configurations."""

import inspect
import pickle
from dataclasses import MISSING, fields

import numpy as np
import pytest

import poli
from poli.configs import RegisterConfig
from poli.errors import DegenerateError, InputError

CONFIGURED = {
    poli.densify: poli.DensifyConfig, poli.odometry: poli.OdometryConfig, poli.gicp: poli.GicpConfig,
    poli.calibrate: poli.CalibrateConfig, poli.register: RegisterConfig,
}  # fmt: skip


@pytest.mark.parametrize("function", CONFIGURED, ids=lambda f: f.__name__)
def test_keywords_are_the_fields_of_the_configuration_with_their_defaults(function):
    keywords = {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    defaults = {f.name: f.default if f.default_factory is MISSING else f.default_factory() for f in fields(CONFIGURED[function])}
    assert keywords.items() >= defaults.items()
    for name in keywords:
        assert f"\n        {name}: " in function.__doc__, f"{name} is not documented"


def test_a_keyword_overrides_the_configuration(rng):
    points = rng.normal(size=(300, 3)) * [5.0, 5.0, 0.01]
    config = poli.DensifyConfig(model="pca", voxel=0.0, per_point=2, max_thickness=None)
    assert len(poli.densify(points, config)) == 900
    assert len(poli.densify(points, config, per_point=1)) == 600  # 1 is also the default: an explicit value counts
    assert len(poli.densify(points, model="pca", voxel=0.0, max_thickness=None, per_point=3)) == 1200


def test_bad_options_are_named(rng):
    points = rng.normal(size=(30, 3))
    with pytest.raises(InputError, match=r"no option 'per_points'; the options are per_point, .*; did you mean per_point"):
        poli.densify(points, per_points=2)
    with pytest.raises(InputError, match="config is a OdometryConfig; expected a DensifyConfig"):
        poli.densify(points, poli.OdometryConfig())
    with pytest.raises(InputError, match="against is 'nothing'"):
        poli.odometry([], against="nothing")


def test_estimate_with_pca_equals_pca(rng):
    points = rng.normal(size=(100, 3))
    for options in ({}, {"k": 8}, {"radius": 0.7}):
        field, expected = poli.estimate(points, "pca", **options), poli.pca(points, **options)
        np.testing.assert_array_equal(field.covariances, expected.covariances)
    with pytest.raises(InputError, match=r"k is 8.*PCA.*'lidar'"):
        poli.estimate(points, k=8)


def test_limits_are_part_of_the_message():
    for wrong, said in (
        ({"voxel": -1}, "voxel is -1; expected a number of meters of at least 0"),
        ({"rings": 2.5}, "rings is 2.5; expected a whole number of at least 2 and of at most 256, or None"),
        ({"order": "tme"}, "order is 'tme'; expected one of originals, time; did you mean time?"),
        ({"model": "lidr"}, "model is 'lidr'; expected one of .*, or the path of a .safetensors file; did you mean lidar?"),
    ):
        with pytest.raises(InputError, match=said.replace("?", r"\?")):
            poli.DensifyConfig(**wrong)


def test_errors_can_be_passed_between_processes():
    error = pickle.loads(pickle.dumps(DegenerateError("few matches")))
    error.about("a.pcd")
    error.about("a.pcd")
    assert str(error) == "a.pcd: few matches"
