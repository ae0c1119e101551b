import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kgscale.errors import UserError
from kgscale.formats.lightrag import CACHE, CHUNKS, GRAPH, NO_ANSWER, read_lightrag
from kgscale.formats.lightrag_answer import merged, parse_answer
from kgscale.records import GoldEntity, Origin, Relation, Status

TEXT = "Apple was founded by Steve Jobs and Steve Wozniak."
NEW = (
    "entity<|#|>Apple<|#|>Organization<|#|>A company.\n"
    "relation<|#|>Steve Jobs<|#|>Apple<|#|>founder, of<|#|>He did.\n<|COMPLETE|>"
)
OLD = (
    '("entity"<|>"Apple"<|>"organization"<|>"A company.")##\n'
    '("relationship"<|>"Steve Jobs"<|>"Apple"<|>"He did."<|>"founder"<|>9)<|COMPLETE|>'
)
JSON = json.dumps(
    {
        "entities": [{"name": "Apple", "type": "Organization", "description": "A company."}],
        "relationships": [{"source": "Steve Jobs", "target": "Apple", "keywords": "founder", "description": "He did."}],
    }
)
GLEANED = "entity<|#|>Steve Wozniak<|#|>person<|#|>One more.\n<|COMPLETE|>"


def write(folder, cache, **chunk):
    folder.mkdir(exist_ok=True)
    chunks = {"chunk-1": {"content": TEXT, "full_doc_id": "doc-1", "file_path": "a.md", **chunk}}
    (folder / CHUNKS).write_text(json.dumps(chunks), encoding="utf-8")
    if cache is not None:
        (folder / CACHE).write_text(json.dumps(cache), encoding="utf-8")
    return folder


def answer(text, chunk="chunk-1", **more):
    return {"return": text, "cache_type": "extract", "chunk_id": chunk, **more}


def read(folder):
    result = read_lightrag(folder)
    return list(result.records), result.report


@pytest.mark.parametrize("said", [NEW, OLD, JSON, f"```json\n{JSON}\n```", f"<think>\nentity…\n</think>\n{NEW}"])
def test_every_form_of_an_answer(tmp_path, said):
    (record,), report = read(write(tmp_path, {"default:extract:1": answer(said)}))
    assert (record.doc_id, record.text, record.status) == ("doc-1", TEXT, Status.OK)
    assert record.gold.origin is Origin.PSEUDO
    assert [(it.text, it.type.lower(), it.start, it.end) for it in record.gold.entities] == [
        ("Apple", "organization", 0, 5)
    ]
    assert record.gold.relations == [Relation("Steve Jobs", "Apple", "")]
    assert report.skipped == 0


def test_gleaning_is_merged_each_answer_parsed_for_itself(tmp_path):
    # Without its completion mark the first answer must not run into the second.
    first = NEW.removesuffix("\n<|COMPLETE|>")
    cache = {
        "default:extract:1": answer(first),
        "default:extract:2": answer(GLEANED),
        "default:summary:3": {"cache_type": "summary"},
    }
    (record,), report = read(write(tmp_path, cache))
    assert [it.text for it in record.gold.entities] == ["Apple", "Steve Wozniak"]
    assert record.status is Status.TRUNCATED
    assert report.skipped == 0


def test_answers_of_an_earlier_run_are_left_out(tmp_path):
    cache = {
        "default:extract:1": answer(NEW),
        "default:extract:2": answer(GLEANED),
        "default:extract:3": answer(NEW, "gone"),
    }
    (record,), report = read(write(tmp_path, cache, llm_cache_list=["default:extract:2"]))
    assert [it.text for it in record.gold.entities] == ["Steve Wozniak"]
    assert dict(report.problems.counts) == {"left out an answer of no chunk, or of an earlier run": 2}


def test_a_chunk_without_an_answer_has_failed(tmp_path):
    folder = write(tmp_path, {"default:extract:3": answer(NEW, "gone")})
    (record,), report = read(folder)
    assert (record.status, record.error) == (Status.FAILED, NO_ANSWER)
    assert report.skipped == 1


def test_older_layouts_are_matched_by_the_prompt(tmp_path):
    example = "…\nText:\nan example\n######\nOutput:\n"
    real = f"{example}---Real Data---\n######\nEntity_types: [x]\nText:\n{TEXT}\n######\nOutput:"
    gleaning = (
        json.dumps([{"role": "user", "content": real}, {"role": "assistant", "content": OLD}]) + "\nMANY were missed"
    )
    more = '("entity"<|>"Steve Wozniak"<|>"person"<|>"d")<|COMPLETE|>'
    answers = {
        "a": {"return": OLD, "cache_type": "extract", "original_prompt": real},
        "b": {"return": more, "cache_type": "extract", "original_prompt": gleaning},
        "c": {"return": "No", "cache_type": "extract", "original_prompt": gleaning},
        "d": {"return": "A summary.", "cache_type": "summary", "original_prompt": "…"},
        "e": {"return": more, "cache_type": "extract", "original_prompt": "another"},
    }
    for number, cache in enumerate(
        [{"default": answers, "local": {}}, {f"default:extract:{k}": it for k, it in answers.items()}]
    ):
        (record,), report = read(write(tmp_path / str(number), cache))
        assert [it.text for it in record.gold.entities] == ["Apple", "Steve Wozniak"]
        assert record.status is Status.OK
        assert dict(report.problems.counts) == {"left out an answer of no chunk, or of an earlier run": 1}


def test_lines_that_are_no_record_are_told(tmp_path):
    said = "Here you are:\nentity<|#|>Apple<|#|>x\nentity<|#|> <|#|>x<|#|>y\nrelation<|#|>a<|#|>b<|#|>c\n" + NEW
    (record,), report = read(write(tmp_path, {"default:extract:1": answer(said)}))
    assert [it.text for it in record.gold.entities] == ["Apple"]
    assert dict(report.problems.counts) == {"skipped a line of an answer": 4}


GRAPHML = """<?xml version='1.0' encoding='utf-8'?>
{doctype}<graphml xmlns="http://graphml.graphdrawing.org/xmlns">
<key id="d0" for="node" attr.name="entity_id"/><key id="d1" for="node" attr.name="entity_type"/>
<key id="d2" for="node" attr.name="source_id"/><key id="d3" for="edge" attr.name="source_id"/>
<graph edgedefault="undirected">
<node id="Apple"><data key="d0">Apple</data><data key="d1">org &amp; co</data>
<data key="d2">chunk-1&lt;SEP&gt;chunk-2</data></node>
<node id="Jobs"><data key="d0">Jobs</data><data key="d2">chunk-2</data></node>
<edge source="Apple" target="Jobs"><data key="d3">chunk-2</data></edge>
</graph></graphml>"""


def test_the_graph_stands_in_for_the_cache(tmp_path):
    write(tmp_path, None)
    (tmp_path / GRAPH).write_text(GRAPHML.format(doctype=""))
    (record,), report = read(tmp_path)
    assert record.gold.entities == [GoldEntity("Apple", "org & co", 0, 5)]
    assert record.gold.relations == []
    assert dict(report.problems.counts) == {
        "no answer is cached: entities and relations are the graph's": 1,
        "left out what the graph says of a chunk that is not there": 3,
    }
    (tmp_path / "kv_store_entity_chunks.json").write_text('{"Jobs": {"chunk_ids": ["chunk-1"]}}')
    (tmp_path / "kv_store_relation_chunks.json").write_text('{"Apple<SEP>Jobs": {"chunk_ids": ["chunk-1"]}}')
    (record,), report = read(tmp_path)
    assert report.skipped == 1
    assert [it.text for it in record.gold.entities] == ["Apple", "Jobs"]
    assert record.gold.relations == [Relation("Apple", "Jobs", "")]


@pytest.mark.parametrize(
    "doctype", ['<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>\n', '<!DOCTYPE x SYSTEM "file:///etc/passwd">\n']
)
def test_xml_entities_are_refused(tmp_path, doctype):
    write(tmp_path, None)
    (tmp_path / GRAPH).write_text(GRAPHML.format(doctype=doctype))
    with pytest.raises(UserError, match="has a document type"):
        read(tmp_path)


def test_an_answer_whose_chunk_is_no_id_is_told_or_belongs_to_none(tmp_path):
    cache = {f"default:extract:{at}": answer(NEW, it) for at, it in enumerate(({}, [], 0, ["x"], "chunk-1"))}
    (record,), report = read(write(tmp_path, cache))
    assert record.status is Status.OK
    assert report.problems.counts["skipped an answer"] == 1
    assert report.problems.counts["left out an answer of no chunk, or of an earlier run"] == 3


def test_a_cut_cache_keeps_its_good_answers(tmp_path):
    cache = {f"default:extract:{it}": answer(NEW, f"chunk-{it}") for it in (1, 2)}
    write(tmp_path, cache)
    whole = (tmp_path / CACHE).read_text()
    (tmp_path / CACHE).write_text(whole[:-60])
    (record,), report = read(tmp_path)
    assert record.status is Status.OK
    assert report.skipped == 1
    assert "broken JSON" in str(report.problems.first[0])


def test_one_workspace_is_found_and_several_are_asked_about(tmp_path):
    write(tmp_path / "a", {"default:extract:1": answer(NEW)})
    assert len(read(tmp_path)[0]) == 1
    write(tmp_path / "b", None)
    with pytest.raises(UserError, match="several workspaces"):
        read(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="only LightRAG's JSON storage"):
        read(tmp_path / "empty")


LINES = st.lists(
    st.sampled_from(
        [
            "entity<|#|>Ada<|#|>person<|#|>d",
            "relation<|#|>Ada<|#|>Bob<|#|>k<|#|>d",
            "entity<|#|>Bob<|#>person<|#|>d",
            "entity<|#|>Ada<|#|>Bob<|#|>k<|#|>d",
            "noise",
            "<|COMPLETE|>",
        ]
    ),
    max_size=6,
).map("\n".join)


@given(LINES, LINES)
def test_two_answers_say_what_each_says(first, second):
    both = merged(map(parse_answer, (first, second)))
    one, two = parse_answer(first), parse_answer(second)
    assert both.entities.keys() == one.entities.keys() | two.entities.keys()
    assert both.relations.keys() == one.relations.keys() | two.relations.keys()
    assert len(both.left_out) == len(one.left_out) + len(two.left_out)


def test_a_cut_json_answer_keeps_what_is_complete():
    said = parse_answer('{"entities": [{"name": "Ada", "type": "person"}, {"name": "Bo')
    assert list(said.entities) == [("Ada", "person")]
    assert not said.whole


@pytest.mark.parametrize("delimiter", ["<|#|>", "<|#>", "<#|>", "|#|>", "<|#|"])
def test_what_models_make_of_the_delimiter(delimiter):
    lines = ["entity<|#|>Ada<|#|>person<|#|>d", "entity<|#|>Ada<|#|>Bob<|#|>k<|#|>d", "<|COMPLETE|>"]
    said = parse_answer("\n".join(lines).replace("<|#|>", delimiter))
    # Five fields make a relation, whatever it calls itself.
    assert (list(said.entities), list(said.relations)) == ([("Ada", "person")], [("Ada", "Bob")])
    assert said.whole
    assert not said.left_out


def test_half_characters_cost_only_what_holds_them(tmp_path):
    listed = {
        "entities": [{"name": "Jo\ud800hn", "type": "person"}, {"name": "Oslo", "type": "\udfff"}, {"name": "Ada"}]
    }
    cache = {"default:extract:1": answer(json.dumps(listed)), "default:extract:\ud800": answer(NEW)}
    (record,), report = read(write(tmp_path, cache))
    assert [it.text for it in record.gold.entities] == ["Ada"]
    assert report.skipped == 3
