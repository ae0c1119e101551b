"""What holds for every test: no model hub, no telemetry, and no time limit on a property that a busy machine slows."""

import os
from pathlib import Path

import pytest
import setuptools  # noqa: F401  # early: it replaces distutils, and vLLM needs it to have done so before others load that
from hypothesis import HealthCheck, settings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

settings.register_profile("kgscale", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kgscale")

SIBLING = Path(__file__).parents[1].parent / "shared" / "data"


@pytest.fixture
def data():
    """A function that gives the path of a data set, and skips the test where the data sets are not at hand."""
    root = Path(os.environ.get("KGSCALE_DATA", SIBLING))

    def path(name):
        if not (root / name).exists():
            pytest.skip(f"{name} is not below {root}; set KGSCALE_DATA")
        return root / name

    return path
