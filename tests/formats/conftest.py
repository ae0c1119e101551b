import os
from pathlib import Path

import pytest

SIBLING = Path(__file__).parents[2].parent / "shared" / "data"


@pytest.fixture
def data():
    """A function that gives the path of a data set, and skips the test where the data sets are not at hand."""
    root = Path(os.environ.get("KGSCALE_DATA", SIBLING))

    def path(name):
        if not (root / name).exists():
            pytest.skip(f"{name} is not below {root}; set KGSCALE_DATA")
        return root / name

    return path
