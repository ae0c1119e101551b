"""The review page in a real browser: keys, edits, offsets, hostile text, and what it saves."""

import json
import re

import pytest

from kgscale.config import SchemaConfig
from kgscale.formats import load_gold
from kgscale.gold.review import Tool, write_review
from kgscale.gold.words import words
from kgscale.records import Origin
from tests.report.browser import BINARY, chromium

pytestmark = pytest.mark.skipif(BINARY is None, reason="no Chromium is installed")

TEXT = "Ada 😀 of Acme met Bob. Ada left."
HOSTILE = "</script><img src=x onerror=alert(1)> \u202e{{7*7}} <!-- ${1} Ada"
STATES = "[...document.querySelectorAll('#list button')].map((it) => it.className)"
ITEMS = "[...document.querySelectorAll('#items button')].map((it) => it.textContent)"
MESSAGE = "document.getElementById('message').textContent"


def chunk(chunk_id, text, entities, relations=()):
    return {
        "chunk_id": chunk_id,
        "doc_id": "d",
        "text": text,
        "origin": "pseudo",
        "annotator": "big-model",
        "prompt": "0f0f",
        "ground_truth_entities": [
            {"text": name, "type": kind, **({} if start is None else {"start": start, "end": start + len(name)})}
            for name, kind, start in entities
        ],
        "ground_truth_relations": [{"source": a, "type": kind, "target": b} for a, kind, b in relations],
    }


CHUNKS = [
    chunk(
        "c0",
        TEXT,
        [("Ada", "person", 0), ("Acme", "organization", 9), ("Ada", "person", 23), ("Zoe", "person", None)],
        [("Ada", "works_for", "Acme")],
    ),
    chunk("c1", HOSTILE, [("</script>", "product", 0)]),
    chunk("c2", "Nothing here.", []),
]


def select(page, first, last):
    """Select characters of the text with the mouse's means."""
    page.run(
        f"""(() => {{
          const place = (at) => {{
            for (const part of document.querySelectorAll('#text > *')) {{
              const own = Array.from(part.textContent);
              const from = Number(part.dataset.start);
              if (at <= from + own.length) return [part.firstChild, own.slice(0, at - from).join('').length];
            }}
            return null;
          }};
          const range = document.createRange();
          range.setStart(...place({first}));
          range.setEnd(...place({last}));
          getSelection().removeAllRanges();
          getSelection().addRange(range);
        }})()"""
    )


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("review")
    (folder / "gold.json").write_text(json.dumps({"chunks": CHUNKS}))
    out = folder / "review.html"
    write_review(folder / "gold.json", out, Tool.HTML, SchemaConfig(), print)
    with chromium(tmp_path_factory.mktemp("profile")) as found:
        found.open(f"file://{out}")
        yield found
        assert found.complaints == []
        assert [it for it in found.requests if not it.startswith(f"file://{out}")] == []


@pytest.fixture
def fresh(page):
    page.run("localStorage.clear(); review = fresh(); undone.length = 0; show(0)")
    return page


def saved(page, tmp_path):
    (tmp_path / "reviewed.json").write_text(page.run("JSON.stringify(reviewed())"))
    return json.loads((tmp_path / "reviewed.json").read_text())


def test_accepting_everything_changes_nothing_but_the_origin(fresh, tmp_path):
    for _ in CHUNKS:
        fresh.press("a")
    found = saved(fresh, tmp_path)
    assert found["chunks"] == [{**it, "origin": "reviewed"} for it in CHUNKS]
    gold = load_gold(tmp_path / "reviewed.json")
    assert not gold.report.problems.first
    assert {(it.origin, it.annotator, it.prompt) for it in gold.chunks} == {(Origin.REVIEWED, "big-model", "0f0f")}


def test_one_key_each_to_accept_and_reject(fresh, tmp_path):
    fresh.press("a")
    fresh.press("x")
    assert fresh.run(STATES) == ["accepted", "rejected", "open"]
    found = saved(fresh, tmp_path)
    assert [it["chunk_id"] for it in found["chunks"]] == ["c0"]
    assert (found["rejected"], found["open"]) == (["c1"], ["c2"])
    fresh.press("u")
    assert fresh.run(STATES) == ["accepted", "open", "open"]


def test_fixing_by_keys(fresh, tmp_path):
    assert fresh.run(ITEMS)[:3] == ["Ada person × 2", "Acme organization", "Zoe person (not in the text)"]
    fresh.press("f")
    fresh.press("ArrowDown")
    fresh.press("4")  # Acme becomes a product
    fresh.press("ArrowDown")
    fresh.press("d")  # Zoe goes
    fresh.press("ArrowUp")
    fresh.press("ArrowUp")
    fresh.press("r")  # from Ada …
    fresh.press("ArrowDown")
    fresh.press("5")  # … to Acme: uses
    fresh.press("a")
    (chunk,) = saved(fresh, tmp_path)["chunks"]
    assert [(it["text"], it["type"]) for it in chunk["ground_truth_entities"]] == [
        ("Ada", "person"),
        ("Acme", "product"),
        ("Ada", "person"),
    ]
    assert [(it["source"], it["type"], it["target"]) for it in chunk["ground_truth_relations"]] == [
        ("Ada", "works_for", "Acme"),
        ("Ada", "uses", "Acme"),
    ]


def test_a_name_that_goes_takes_its_relations_along(fresh, tmp_path):
    fresh.press("f")
    fresh.press("d")
    assert "1 relations are gone" in fresh.run(MESSAGE)
    assert fresh.run(ITEMS) == ["Acme organization", "Zoe person (not in the text)"]
    fresh.press("u")
    assert len(fresh.run(ITEMS)) == 4


@pytest.mark.parametrize(("first", "last"), [(18, 21), (17, 22)])
def test_selected_text_becomes_an_entity_with_offsets_in_characters(fresh, tmp_path, first, last):
    select(fresh, first, last)
    fresh.press("2")
    fresh.press("a")
    (chunk,) = saved(fresh, tmp_path)["chunks"]
    new = chunk["ground_truth_entities"][-1]
    start = first + (len(TEXT[first:last]) - len(TEXT[first:last].lstrip()))
    assert new["type"] == "person"
    assert (new["start"], new["text"]) == (start, TEXT[first:last].strip())
    assert not load_gold(tmp_path / "reviewed.json").report.problems.first


def test_a_selection_over_other_marks(fresh, tmp_path):
    select(fresh, 4, 13)
    fresh.press("1")
    fresh.press("a")
    new = saved(fresh, tmp_path)["chunks"][0]["ground_truth_entities"][-1]
    assert (new["text"], new["start"], new["end"]) == (TEXT[4:13], 4, 13)
    assert "".join(fresh.run("data.chunks[0].text")) == TEXT


def test_the_work_is_there_after_a_reload(fresh, page):
    fresh.press("a")
    fresh.press("f")
    page.call("Page.reload")
    for _ in range(100):
        if page.run("document.readyState") == "complete" and page.run("typeof review") == "object":
            break
    assert page.run(STATES) == ["accepted", "open", "open"]


def test_hostile_text_is_shown_and_does_nothing(fresh):
    fresh.press("j")
    assert fresh.run("document.getElementById('text').textContent") == HOSTILE
    assert fresh.run("document.querySelectorAll('#chunk img, #chunk script').length") == 0
    assert fresh.run(ITEMS)[0].startswith("</script>")


def test_every_mark_covers_its_name(fresh):
    marks = fresh.run("[...document.querySelectorAll('#text mark')].map((it) => it.textContent)")
    assert marks == ["Ada", "Acme", "Ada"]
    assert fresh.run("document.getElementById('text').textContent") == TEXT


def test_the_page_speaks_chinese(tmp_path):
    (tmp_path / "gold.json").write_text(json.dumps({"chunks": CHUNKS}))
    write_review(tmp_path / "gold.json", tmp_path / "审阅.html", Tool.HTML, SchemaConfig(), print, lang="zh")
    with chromium(tmp_path / "profile") as found:
        found.open((tmp_path / "审阅.html").as_uri())
        assert found.run("document.title") == "金标审阅"
        assert found.run(ITEMS)[2] == "Zoe person （不在文本中）"
        found.press("u")
        assert found.run(MESSAGE) == "没有可撤销的操作。"
        for _ in CHUNKS:
            found.press("a")
        assert found.run("document.getElementById('progress').textContent") == "已接受 3，已拒绝 0，未审阅 0"


def test_every_word_of_the_page_has_its_places_in_both_languages():
    english, chinese = words("en"), words("zh")
    for key, text in english.items():
        assert sorted(re.findall(r"\{\w+\}", text)) == sorted(re.findall(r"\{\w+\}", chinese[key])), key
