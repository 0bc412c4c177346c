import os

import numpy as np
import pytest
from hypothesis import settings

pytest_plugins = ["odometry_runs", "attack_tools"]  # fixtures that several files of tests share

# Compiling a kernel takes seconds the first time, so no deadline; the same examples on every run.
settings.register_profile("poli", deadline=None, derandomize=True, max_examples=30, print_blob=True)
# HYPOTHESIS_PROFILE=thorough: ten times as many, new ones each time.
settings.register_profile("thorough", deadline=None, max_examples=300, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "poli"))

# Whoever has changed a kernel is told of compiling by the command line, not in what tests compare.
os.environ.setdefault("POLI_NATIVE_NOTICE", "0")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture(scope="session")
def two_processes():
    """Workers for all tests that want some: to start them takes seconds."""
    from poli.tasks.densify.engines import engine

    with engine(workers=2) as processes:
        yield processes
