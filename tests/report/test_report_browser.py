"""The report in a real browser: it complains about nothing, asks for nothing, and its explorer works."""

import pytest
from browser import BINARY, chromium
from report_runs import HOSTILE, hostile_run, synthetic_run

from kgscale.report.figures import visible
from kgscale.report.html import write_report
from kgscale.score.compare import compare_run
from kgscale.score.scorer import score_run

pytestmark = pytest.mark.skipif(BINARY is None, reason="no Chromium is installed")

SHOWN = "[...document.querySelectorAll('#list button b')].map((it) => it.textContent)"
PLAIN = """(() => {
  const text = document.querySelector('#chunk .text').cloneNode(true);
  text.querySelectorAll('.tag').forEach((it) => it.remove());
  return text.textContent;
})()"""
CURRENT = "document.querySelector('#list [aria-current] b').textContent"

# Text nodes whose colour is too near to the nearest background behind them.
TOO_FAINT = """(() => {
  const parse = (it) => it.match(/[\\d.]+/g).map(Number);
  const light = (it) => it.slice(0, 3).map((v) => v / 255)
    .map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, index) => sum + v * [0.2126, 0.7152, 0.0722][index], 0);
  const behind = (it) => {
    for (let at = it; at; at = at.parentElement) {
      const color = parse(getComputedStyle(at).backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const faint = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const of = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || of.closest('script, title, desc, svg') || !of.checkVisibility()) continue;
    const [one, other] = [light(parse(getComputedStyle(of).color)), light(behind(of))];
    const ratio = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (ratio < 4.5) faint.push([of.className, walker.currentNode.data.slice(0, 30), ratio.toFixed(2)].join(' '));
  }
  return [...new Set(faint)].slice(0, 10);
})()"""


def set_filter(page, name, value):
    script = "const it = document.querySelector('.filters').elements[{0!r}]; it.value = {1!r};"
    page.run(f"(() => {{ {script.format(name, value)} it.dispatchEvent(new Event('input', {{bubbles: true}})); }})()")
    return page.run(SHOWN)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    run = synthetic_run(tmp_path_factory.mktemp("run"), 300)
    scores = score_run(run)
    address = write_report(run, scores, compare_run(run, run.config.compare))
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        found.open(f"file://{address}")
        yield found
        assert found.complaints == []
        assert [it for it in found.requests if it != f"file://{address}"] == []


@pytest.fixture
def fresh(page):
    page.run("document.querySelector('.filters').reset()")
    set_filter(page, "search", "")
    return page


def test_filters(fresh):
    everything = fresh.run(SHOWN)
    assert len(everything) == fresh.run("JSON.parse(document.getElementById('chunks').textContent).length")
    assert len(set_filter(fresh, "picked", "sampled")) == 120
    set_filter(fresh, "picked", "")
    wrong = set_filter(fresh, "kind", "spurious")
    assert 0 < len(wrong) < len(everything)
    assert fresh.run("document.querySelectorAll('#chunk td.shown .s-spurious').length") > 0
    typed = set_filter(fresh, "type", "founded_by")
    assert len(typed) < len(wrong)
    assert len(set_filter(fresh, "search", "no such words anywhere")) == 0
    assert fresh.run("document.getElementById('chunk').textContent") == ""
    assert "No chunk" in fresh.run("document.getElementById('count').textContent")


def test_failed_chunks_are_found_by_their_status(fresh):
    set_filter(fresh, "method", "0")
    failed = set_filter(fresh, "kind", "status")
    assert failed
    assert "not JSON" in fresh.run("document.querySelector('#chunk .about').textContent")


def test_search_finds_a_chunk_by_its_id_without_regard_to_case(fresh):
    wanted = fresh.run(SHOWN)[5]
    assert set_filter(fresh, "search", wanted.upper()) == [wanted]


def test_keys(fresh):
    shown = fresh.run(SHOWN)
    fresh.run("document.querySelector('#list button').click()")
    fresh.run("document.activeElement.blur()")
    fresh.press("j")
    fresh.press("j")
    fresh.press("k")
    assert fresh.run(CURRENT) == shown[1]
    fresh.press("/")
    assert fresh.run("document.activeElement.name") == "search"
    fresh.press("j")
    assert fresh.run("document.activeElement.value") == "j"
    set_filter(fresh, "search", "")
    fresh.run("document.querySelector('#list [aria-current]').focus()")
    fresh.press("ArrowDown")
    assert fresh.run("document.activeElement === document.querySelector('#list [aria-current]')")


def test_the_chunks_are_two_keys_away(fresh):
    fresh.open(fresh.requests[0])
    fresh.press("Tab")
    assert fresh.run("document.activeElement.className") == "skip"
    fresh.press("Enter")
    fresh.press("Tab")
    assert fresh.run("document.activeElement.name") == "method"


def test_everything_that_scrolls_can_be_reached_by_keys(fresh):
    scrolls = "[...document.querySelectorAll('*')].filter((it) => /auto|scroll/.test(getComputedStyle(it).overflowX))"
    unreachable = "it.tabIndex < 0 && !it.querySelector('a, button, select, input')"
    assert fresh.run(f"{scrolls}.filter((it) => {unreachable}).map((it) => it.outerHTML.slice(0, 80))") == []


def test_what_is_folded_is_printed(fresh):
    closed = "document.querySelectorAll('details:not([open])').length"
    before = fresh.run(closed)
    fresh.run("dispatchEvent(new Event('beforeprint'))")
    assert (before > 0, fresh.run(closed)) == (True, 0)
    fresh.run("dispatchEvent(new Event('afterprint'))")
    assert fresh.run(closed) == before


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_stand_out_from_their_background(fresh, scheme):
    """WCAG's contrast ratio of 4.5 for text, in both colour schemes."""
    fresh.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    assert fresh.run(TOO_FAINT) == []
    fresh.call("Emulation.setEmulatedMedia", features=[])


def test_the_text_is_whole_under_its_marks(fresh):
    chunk = "JSON.parse(document.getElementById('chunks').textContent)"
    shown = "[...document.querySelector('#chunk .text').childNodes].filter((it) => it.className !== 'tag')"
    text = fresh.run(f"{shown}.map((it) => it.textContent).join('')")
    assert text == fresh.run(f"{chunk}.find((it) => it.id === {CURRENT}).text")


@pytest.mark.parametrize("width", [390, 820, 1280])
def test_nothing_is_wider_than_the_screen(fresh, width):
    fresh.call("Emulation.setDeviceMetricsOverride", width=width, height=844, deviceScaleFactor=1, mobile=width < 500)
    assert fresh.run("document.documentElement.scrollWidth") <= width
    fresh.call("Emulation.clearDeviceMetricsOverride")


def test_hostile_text_is_shown_and_does_nothing(tmp_path):
    run = hostile_run(tmp_path / "run")
    address = write_report(run, score_run(run), compare_run(run, run.config.compare))
    with chromium(tmp_path / "profile") as page:
        page.call("Emulation.setDeviceMetricsOverride", width=390, height=844, deviceScaleFactor=1, mobile=True)
        page.open(f"file://{address}")
        seen = []
        for index in range(len(HOSTILE)):
            page.run(f"document.querySelectorAll('#list button')[{index}].click()")
            seen.append(" ".join(page.run(PLAIN).split()))
            assert page.run("document.documentElement.scrollWidth") <= 390
            assert page.run("document.querySelectorAll('#chunk img, #chunk script').length") == 0
        for it in HOSTILE:
            whole = f"Before {visible(it)} after {visible(it)}."
            assert any(text == whole[: len(text)] and len(text) >= min(len(whole), 6000) for text in seen)
        # What would turn the direction of the text around is shown as a sign; what stands beside it keeps its place.
        assert page.run("getComputedStyle(document.querySelector('#chunk mark')).unicodeBidi") == "isolate"
        assert page.complaints == []
        assert page.requests == [f"file://{address}"]
