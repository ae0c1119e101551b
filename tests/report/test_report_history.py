"""The page of many runs."""

import json
import re

import pytest
from browser import BINARY, chromium
from report_runs import HOSTILE, synthetic_run
from test_report_html import Parsed

from kgscale.report.figures import number
from kgscale.report.history import write_history
from kgscale.score.history import history
from kgscale.score.scorer import score_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two repeats, one run on another gold, and a damaged one."""
    path = tmp_path_factory.mktemp("runs")
    for name, chunks in (("demo", 60), ("demo-2", 60), ("other", 80)):
        score_run(synthetic_run(path / name, chunks))
    (path / "broken").mkdir()
    (path / "broken" / "scores.json").write_text("{}")
    (path / "broken" / "run.json").write_text(HOSTILE[0])
    return path


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_it_tells_every_run_and_what_was_left_out(folder, tmp_path, lang):
    found = history(str(folder))
    page = Parsed(write_history(found, tmp_path / "new" / "history.html", lang=lang).read_text())
    for it in found.entries:
        assert it.run in page.text
        assert number(it.entity.f1) in page.text
        assert it.basis in page.text
    assert "broken: run.json is damaged" in page.text
    charts = [attributes for tag, attributes in page.tags if tag == "svg" and attributes.get("role") == "img"]
    assert len(charts) == 4
    assert ("Spread over repeats" if lang == "en" else "重复运行的离散程度") in page.text
    assert not any(tag == "script" for tag, _ in page.tags)


def test_lines_join_only_what_can_be_compared(folder, tmp_path):
    text = write_history(history(str(folder)), tmp_path / "history.html").read_text()
    # Three methods have entities and two relations, each from demo to demo-2, drawn twice; none leads to `other`.
    assert len(re.findall('class="trend ', text)) == 2 * (3 + 2)


@pytest.mark.skipif(BINARY is None, reason="no Chromium is installed")
def test_a_browser_complains_about_nothing(folder, tmp_path):
    path = write_history(history(str(folder)), tmp_path / "history.html")
    with chromium(tmp_path / "profile") as page:
        page.call("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=True)
        page.open(f"file://{path}")
        assert page.run("document.documentElement.scrollWidth") <= 390
        assert (page.complaints, page.requests) == ([], [f"file://{path}"])


def test_json_is_what_the_history_holds(folder):
    from dataclasses import asdict

    found = json.loads(json.dumps(asdict(history(str(folder)))))
    assert {it["run"] for it in found["entries"]} == {"demo", "demo-2", "other"}
    assert len(found["damaged"]) == 1
