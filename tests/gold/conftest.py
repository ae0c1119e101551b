import json
from pathlib import Path

import pytest

from tests.gold.scripted import Scripted, serving


@pytest.fixture
def endpoint():
    with serving(Scripted()) as here:
        yield here


@pytest.fixture
def sample(tmp_path):
    """A function that writes a sample of some texts."""

    def write(texts: list[str], name: str = "sample.jsonl") -> Path:
        path = tmp_path / name
        rows = [{"chunk_id": f"c{at}", "doc_id": f"d{at // 2}", "text": text} for at, text in enumerate(texts)]
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        return path

    return write
