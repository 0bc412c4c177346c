"""The names that `import poli` offers, and agreement of signatures with configurations."""

import inspect
import pickle
from dataclasses import MISSING, fields

import numpy as np
import pytest

import poli
from poli.errors import DegenerateError, FormatError, InputError

CONFIGURED = {poli.densify: poli.DensifyConfig, poli.odometry: poli.OdometryConfig, poli.gicp: poli.GicpConfig}


def test_every_public_name_exists():
    assert {"voxel_downsample", "gicp", "Odometer", "DensifyConfig", "OdometryConfig", "GicpConfig", "ScanPreset"} <= set(dir(poli))
    for name in poli.__all__:
        assert getattr(poli, name) is not None


@pytest.mark.parametrize("function", CONFIGURED, ids=lambda f: f.__name__)
def test_keywords_are_the_fields_of_the_configuration_with_their_defaults(function):
    keywords = {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    defaults = {f.name: f.default if f.default_factory is MISSING else f.default_factory() for f in fields(CONFIGURED[function])}
    assert keywords == defaults
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
    with pytest.raises(InputError, match=r"densify has no option 'per_points'; it has per_point, .*; did you mean per_point"):
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


# --- errors


def test_an_error_spells_its_argument_for_python_or_for_the_command_line():
    error = FormatError("a.bin: of another kind", argument="format", value="pcd", remedy="rename it or pass {argument}")
    assert str(error) == "a.bin: of another kind; rename it or pass format='pcd'"
    error.respell("--format", "--format pcd")
    assert str(error) == "a.bin: of another kind; rename it or pass --format pcd"
    nowhere = FormatError("a.bin: of another kind", argument="format")
    assert str(nowhere) == "a.bin: of another kind; pass format="
    nowhere.respell(None)
    assert str(nowhere) == "a.bin: of another kind"
    blamed = InputError("{argument} is 0; expected more", argument="noise_bound", remedy="")
    blamed.about("a.pcd")
    assert str(blamed) == "a.pcd: noise_bound is 0; expected more"
    blamed.respell("--noise-bound", "--noise-bound")
    assert str(blamed) == "a.pcd: --noise-bound is 0; expected more"


def test_errors_can_be_passed_between_processes():
    error = pickle.loads(pickle.dumps(DegenerateError("few", argument="noise_bound", value=2.0)))
    assert (str(error), error.argument, error.value) == ("few; pass noise_bound=2.0", "noise_bound", 2.0)
    error.respell("--noise-bound", "--noise-bound 2.0")
    assert str(error) == "few; pass --noise-bound 2.0"
