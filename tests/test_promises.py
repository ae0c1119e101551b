"""What the architecture page promises of imports and the reference page."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEAVY = "ray torch vllm gliner transformers"


def loaded_by(statement: str) -> set[str]:
    code = f"{statement}\nimport sys\nprint(*(name for name in {HEAVY.split()!r} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


@pytest.mark.parametrize(
    "module", ["kgscale.cli", "kgscale.score.scorer", "kgscale.score.compare", "kgscale.report.html"]
)
def test_heavy_libraries_are_not_loaded(module: str) -> None:
    assert loaded_by(f"import {module}") == set()


def test_help_loads_none_of_them() -> None:
    assert loaded_by("from kgscale.cli import main\ntry:\n main(['--help'])\nexcept SystemExit:\n pass") == set()


def test_the_reference_page_is_that_of_the_code() -> None:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from make_reference import REFERENCE, reference
    finally:
        sys.path.remove(str(ROOT / "docs"))
    assert REFERENCE.read_text(encoding="utf-8") == reference(), "run `make docs`"


def test_the_ready_configs_are_valid() -> None:
    from kgscale.configfile import load_config

    for path in sorted((ROOT / "jobs").glob("*.yaml")):
        assert load_config(path).methods
