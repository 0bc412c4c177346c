import os

import numpy as np
import pytest
from hypothesis import settings

pytest_plugins = ["odometry_runs", "attack_tools", "chromium"]  # fixtures shared by several test files

# Compiling a kernel takes seconds the first time, so there is no deadline; every run uses the same examples.
settings.register_profile("poli", deadline=None, derandomize=True, max_examples=30, print_blob=True)
# HYPOTHESIS_PROFILE=thorough: ten times as many examples, new ones each time.
settings.register_profile("thorough", deadline=None, max_examples=300, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "poli"))

# The line about compiling must not appear in output that tests compare.
os.environ.setdefault("POLI_NOTICE", "0")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


@pytest.fixture(scope="session")
def two_processes():
    """Workers shared by all tests that need them, since starting them takes seconds."""
    from poli.densification.resume import engine

    with engine(workers=2) as processes:
        yield processes
