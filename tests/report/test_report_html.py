"""The HTML report: complete, small, and a page like any other whatever the corpus holds."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import polars as pl
import pytest
from report_runs import HOSTILE, answer, hostile_run, small_run, synthetic_run

from kgscale.errors import UserError
from kgscale.records import Entity, GoldChunk, GoldEntity, Relation
from kgscale.report.figures import number, share, significant, visible, whole
from kgscale.report.html import write_report
from kgscale.report.tables import engine_hours
from kgscale.report.telling import headline, lead, reasons
from kgscale.report.texts import _TABLE, Texts
from kgscale.runs import Run
from kgscale.score.compare import compare_run
from kgscale.score.scorer import score_run
from kgscale.score.tables import CONFUSION, PER_CHUNK, PER_TYPE, SCORES_FILE, read_table

VOID = {"meta", "br", "input", "link", "img", "hr"}


class Parsed(HTMLParser):
    """A page taken apart; fails where an element is closed that is not open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.tags, self.words, self.raw = [], [], [], {}
        self.feed(text)
        self.close()
        assert self.open == []
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append((tag, dict(attributes)))

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        tag, attributes = self.open[-1] if self.open else ("", {})
        if tag in ("script", "style"):
            self.raw[attributes.get("id", tag)] = self.raw.get(attributes.get("id", tag), "") + data
        else:
            self.words.append(data)

    @property
    def chunks(self):
        return json.loads(self.raw["chunks"])


def report(run: Run, lang="en", verdict=True):
    scores = score_run(run)
    found = compare_run(run, run.config.compare) if verdict else None
    text = run.store.read(write_report(run, scores, found, lang=lang).removeprefix(f"{run.store.uri}/")).decode()
    return scores, found, Parsed(text)


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory):
    return report(synthetic_run(tmp_path_factory.mktemp("run"), 300))


def test_every_figure_of_the_scores_is_there(synthetic):
    scores, verdict, page = synthetic
    wanted = {number(it.drop and -it.drop, "+.1f") for it in verdict.differences}
    wanted |= {whole(scores.gold.chunks), whole(scores.gold.entities), whole(scores.gold.relations)}
    for it in scores.methods:
        for metric in it.metrics:
            wanted |= {number(metric.f1), number(metric.precision), number(metric.recall), number(metric.macro_f1)}
            wanted |= {whole(metric.tp), whole(metric.fp), whole(metric.fn)}
            wanted |= {number(end) for end in (metric.f1_interval.low, metric.f1_interval.high)}
        wanted |= {whole(it.statuses.ok), whole(it.statuses.failed), share(it.coverage)}
        wanted |= {whole(count.count) for count in (*it.failures, *it.missed, *it.spurious)}
        for times in (it.latency.service, it.latency.queue, it.latency.amortised):
            wanted |= {significant(ms) for ms in (times.mean, times.p50, times.p95, times.p99)}
        wanted |= {significant(it.latency.chunks_per_s), significant(engine_hours(it.latency.amortised.mean))}
        wanted |= {whole(it.latency.output_tokens), share(it.checks.dangling_rate), whole(it.checks.relations)}
    wanted |= {number(it.f1) for it in scores.agreement}
    assert [it for it in wanted if it.replace("\u00a0", " ") not in page.text] == []


def test_the_verdict_and_its_reasons_are_there(synthetic):
    _, verdict, page = synthetic
    t = Texts("en")
    for told in (headline(verdict, t), lead(verdict, t), *reasons(verdict, t)):
        assert told.replace("\u00a0", " ") in page.text.replace("\u00a0", " ")


def test_every_threshold_is_there(synthetic):
    _, verdict, page = synthetic
    for it in (*verdict.differences, *verdict.rag):
        assert f"≥ {it.floor:.2f}" in page.text
    assert page.text.count("not measured") == 5
    assert "RAGAS score" in page.text


def test_repeats_beside_the_run_show_their_spread(tmp_path):
    for name in ("demo", "demo-2"):
        run = synthetic_run(tmp_path / name, 60)
        score_run(run)
    assert "Spread over repeats" in report(run)[2].text


def test_types_taken_for_another_and_intervals_per_type(synthetic):
    page = synthetic[2]
    assert "Entity types taken for another" in page.text
    shades = [attributes for tag, attributes in page.tags if tag == "rect" and attributes.get("class") == "sure"]
    assert len(shades) > 15
    assert all(float(it["x"]) >= 0 and float(it["x"]) + float(it["width"]) <= 100.1 for it in shades)


def test_the_page_is_sound(synthetic):
    page = synthetic[2]
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = [attributes["href"] for tag, attributes in page.tags if "href" in attributes]
    assert all(it.startswith("#") and it[1:] in ids for it in targets)
    assert not any("src" in attributes or "style" in attributes for _, attributes in page.tags)
    charts = [attributes for tag, attributes in page.tags if tag == "svg" and attributes.get("role") == "img"]
    assert len(charts) == 8
    assert all(it["aria-labelledby"] in ids and it["aria-describedby"] in ids for it in charts)


def test_only_the_own_script_and_style_may_run(synthetic):
    page = synthetic[2]
    policy = next(it["content"] for _, it in page.tags if it.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    for kind in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(page.raw[kind].encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert "unsafe" not in policy


def test_hostile_text_stays_text(tmp_path):
    _, _, page = report(hostile_run(tmp_path))
    assert [tag for tag, _ in page.tags].count("script") == 3
    assert not any(tag == "img" or "onerror" in attributes for tag, attributes in page.tags)
    texts = {it["text"] for it in page.chunks}
    for it in HOSTILE:
        assert any(visible(it) in text for text in texts)
    assert not re.search("[\x00-\x08\x0e-\x1f\u202a-\u202e]", page.text + page.raw["chunks"])
    assert "\u2400" in page.raw["chunks"]
    assert "{{ 7 * 7 }}" in page.text


def test_offsets_count_as_javascript_does(tmp_path):
    text = "\U0001f680 by Ada"
    gold = [GoldChunk("", [GoldEntity("Ada", "person", 5, 8)], [])]
    run = small_run(tmp_path, [text], {"llm": [answer([Entity("Ada", "person", 5, 8)])]}, gold)
    assert report(run, verdict=False)[2].chunks[0]["spans"] == [[[6, 9, "person", "matched"]]]


def test_without_gold(tmp_path):
    _, _, page = report(synthetic_run(tmp_path, 60, gold=False))
    assert "no gold" in page.text
    assert "Agreement between methods" in page.text
    assert page.chunks[0]["entities"][0][4][0] == ["found"]
    assert json.loads(page.raw["about"])["hasGold"] is False


def test_one_method_without_relations_and_without_a_verdict(tmp_path):
    scores, _, page = report(synthetic_run(tmp_path, 60, methods=("gliner",)), verdict=False)
    assert "gliner over 60 chunks." in page.text
    assert number(scores.methods[0].metric("name+type").f1) in page.text
    assert {state[0] for it in page.chunks for row in it["relations"] for state in row[4]} <= {"missed"}


def test_no_relation_anywhere(tmp_path):
    entity = GoldEntity("Ada", "person", 0, 3)
    said = [answer([Entity("Ada", "person", 0, 3)]), answer()]
    run = small_run(tmp_path, ["Ada", "Ada"], {"llm": said, "hybrid": said}, [GoldChunk("", [entity], [])] * 2)
    page = report(run)[2]
    assert [it["relations"] for it in page.chunks] == [[], []]
    assert "Why relations were lost" not in page.text


def test_a_run_without_scores_is_refused(tmp_path):
    run = synthetic_run(tmp_path, 60)
    scores = score_run(run)
    run.store.delete(PER_TYPE)
    with pytest.raises(UserError, match="has not been scored"):
        write_report(run, scores, None)


def test_chinese(tmp_path):
    page = report(synthetic_run(tmp_path, 60), lang="zh")[2]
    assert ("html", {"lang": "zh-Hans"}) in page.tags
    for word in ("质量与速度", "运行卡片", "关系为何丢失", "引擎小时"):
        assert word in page.text
    english = {both[0] for both in _TABLE.values() if " " in both[0].strip() and "{" not in both[0]}
    assert [it for it in english if it in page.text.split("运行卡片")[0]] == []


def test_both_languages_have_places_for_the_same_values():
    places = re.compile(r"\{\w+\}")
    for english, chinese in _TABLE.values():
        assert set(places.findall(english.replace("{What}", "{what}"))) >= set(places.findall(chinese))
        assert chinese or english == " "


def test_worst_chunks_come_first_and_a_sample_beside(synthetic):
    page = synthetic[2]
    worst, sampled = ([it for it in page.chunks if it[kind]] for kind in ("worst", "sampled"))
    assert len(worst) == 240
    assert len(sampled) == 120
    assert page.chunks[0]["errors"][0] == max(it["errors"][0] for it in page.chunks)


def test_100_000_chunks_fit_in_5_mb(tmp_path):
    small, run = synthetic_run(tmp_path / "small", 2_000), synthetic_run(tmp_path / "large", 100_000)
    scores = score_run(small)
    # Scoring has tests of its own: here its tables are those of the small run, 50 times.
    run.store.write(SCORES_FILE, scores.to_json().encode())
    for name in (PER_TYPE, CONFUSION):
        run.store.write_table(name, small.store.parquet(name).read())
    counts = read_table(small, PER_CHUNK)
    copies = [counts.with_columns(pl.col("row") + 2_000 * copy) for copy in range(50)]
    run.store.write_table(PER_CHUNK, pl.concat(copies).to_arrow())
    address = write_report(run, scores, compare_run(small, small.config.compare))
    assert run.store.size(address.rsplit("/", 1)[1]) < 5_000_000
    page = Parsed(run.store.read("report.html").decode())
    assert f"Here are {len(page.chunks)} of 100,000 chunks" in page.text


def test_long_texts_end_at_the_budget(tmp_path):
    texts = [f"\u4e2d{row} " * 4000 for row in range(400)]
    gold = [GoldChunk("", [GoldEntity("\u4e2d", "person")], [Relation("a", "b", "uses")])] * len(texts)
    run = small_run(tmp_path, texts, {"llm": [answer()] * len(texts)}, gold)
    page = report(run, verdict=False)[2]
    assert run.store.size("report.html") < 5_000_000
    assert len(page.raw["chunks"].encode()) <= 3_000_000
    assert page.chunks[0]["cut"] > 0
    assert f"Here are {len(page.chunks)} of 400 chunks" in page.text
