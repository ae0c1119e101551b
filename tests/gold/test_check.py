"""What `gold check` finds, and what it leaves in peace."""

import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from kgscale.cli.gold import gold as commands
from kgscale.config import SchemaConfig
from kgscale.errors import UserError
from kgscale.gold.check import NOTES, Kind, check_gold
from kgscale.gold.duplicates import near_duplicates
from kgscale.gold.sets import Settings
from tests.making import make_run

LONG = "Ada Lovelace wrote the first program for the analytical engine that Charles Babbage had designed in London."
OTHER = "Grace Hopper built a compiler for the navy and later helped to design the language COBOL in Philadelphia."
ZH = "张伟在二〇〇一年于北京创立了一家生产显微镜的公司，后来把总部迁到了上海浦东新区。"


def write_gold(path, *chunks):
    path.write_text(json.dumps({"chunks": list(chunks)}, ensure_ascii=False), encoding="utf-8")
    return path


def chunk(chunk_id="c0", text=LONG, entities=(("Ada Lovelace", "person"),), relations=(), **more):
    return {
        "chunk_id": chunk_id,
        "text": text,
        "ground_truth_entities": [{"text": name, "type": kind} for name, kind in entities],
        "ground_truth_relations": [{"source": a, "type": kind, "target": b} for a, kind, b in relations],
        **more,
    }


@pytest.fixture
def found(tmp_path):
    """A function that checks chunks and gives (kind, chunk id, detail) of all but the notes."""

    def check(*chunks, against=(), settings=None, notes=False):
        path = write_gold(tmp_path / "gold.json", *chunks)
        schema = settings or Settings(SchemaConfig())
        checked = check_gold(path, schema, list(against), has_schema=settings is not None)
        return [(it.kind, it.chunk_id, it.detail) for it in checked.findings if notes or it.kind not in NOTES]

    return check


def test_good_gold_has_no_faults(found):
    assert found(chunk(), chunk("c1", OTHER, [("Grace Hopper", "person")])) == []


def test_what_could_not_be_read_is_counted_in_full(found):
    one = chunk()
    one["ground_truth_entities"] += [{"text": "Ada", "type": "person", "start": 5, "end": 6}] * 25
    kinds = found(one)
    assert [kind for kind, *_ in kinds] == [Kind.UNREADABLE] * 21
    assert kinds[-1][2].startswith("… and 5 more")


def test_relation_ends_that_are_no_entities(found):
    aliased = {"text": "Charles Babbage", "type": "person", "aliases": ["Babbage"]}
    one = chunk(relations=[("ada  LOVELACE", "works_for", "Babbage"), ("Ada Lovelace", "uses", "the engine")])
    one["ground_truth_entities"].append(aliased)
    assert found(one) == [(Kind.LOOSE_END, "c0", "the engine")]


def test_types_outside_the_schema_unless_an_alias_maps_them(found):
    schema = {"aliases": {"entity_types": {"PER": "person"}}}
    settings = Settings(SchemaConfig.model_validate(schema))
    one = chunk(
        entities=[("Ada Lovelace", "per"), ("analytical engine", "machine")],
        relations=[("Ada Lovelace", "wrote", "analytical engine")],
    )
    assert found(one, settings=settings) == [(Kind.OFF_SCHEMA, "c0", "machine"), (Kind.OFF_SCHEMA, "c0", "wrote")]


def test_relations_that_the_schema_allows_in_no_row(found):
    ends = {"relation_types": {"works_for": {"source": "person", "target": "organization"}}}
    settings = Settings(SchemaConfig.model_validate(ends))
    entities = [("Ada Lovelace", "person"), ("analytical engine", "organization")]
    there, back = (
        ("Ada Lovelace", "works_for", "analytical engine"),
        ("analytical engine", "works_for", "Ada Lovelace"),
    )
    one = chunk(entities=entities, relations=[there, back])
    assert found(one, settings=settings) == [(Kind.MISFIT, "c0", " ".join(back))]


def test_entities_that_are_not_in_the_text(found):
    one = chunk(entities=[("ada lovelace", "person"), ("Countess of Lovelace", "person")])
    one["ground_truth_entities"][1]["aliases"] = ["Ada"]
    two = chunk("c1", OTHER, [("Alan Turing", "person")])
    assert found(one, two) == [(Kind.ABSENT, "c1", "Alan Turing")]


def test_empty_chunks_are_told_and_blank_ones_are_faults(found):
    assert found(chunk(entities=[]), chunk("c1", "  ", []), notes=True) == [
        (Kind.BLANK, "c1", ""),
        (Kind.EMPTY, "c0", ""),
    ]


def test_duplicates_and_near_duplicates(found):
    copy = LONG.upper().replace(".", "!")
    changed = LONG.replace("in London", "in the city of London")
    kinds = found(*(chunk(f"c{at}", it, []) for at, it in enumerate((LONG, copy, changed, OTHER))))
    assert [(kind, chunk_id) for kind, chunk_id, _ in kinds] == [(Kind.DUPLICATE, it) for it in ("c1", "c2", "c2")]
    assert kinds[0][2] == "100% like c0"


def test_neighbouring_chunks_with_the_usual_overlap_are_no_duplicates():
    words = [f"word{number}" for number in range(600)]
    assert list(near_duplicates([" ".join(words[:300]), " ".join(words[260:560])])) == []


def test_near_duplicates_in_chinese():
    (near,) = near_duplicates([ZH, "完全不同的另一段文字，讲的是别的事情。", ZH.replace("后来", "随后")])
    assert (near.first, near.second) == (0, 2)
    assert 0.6 < near.similarity < 1


def tokens(text):
    return text.replace(".", " .").split()


TRAINING = {
    "gliner.json": lambda text: json.dumps([{"tokenized_text": tokens(text), "ner": [[0, 1, "person"]]}]),
    "train.jsonl": lambda text: json.dumps({"messages": [{"role": "user", "content": f"Text:\n{text}"}]}),
    "own.jsonl.gz": lambda text: gzip.compress(json.dumps(["own", tokens(text), [[0, 1, "person"]]]).encode()),
    "prompt.txt": lambda text: f"You extract entities.\n\nExample: {text} -> Ada Lovelace (person)\n",
}


@pytest.mark.parametrize("name", TRAINING)
@pytest.mark.parametrize("text", [LONG, ZH])
def test_gold_that_a_model_has_seen(found, tmp_path, name, text):
    seen = TRAINING[name](f"Before it. {text} And after.")
    path = tmp_path / name
    path.write_bytes(seen if isinstance(seen, bytes) else seen.encode())
    one = chunk(text=text, entities=[])
    kinds = found(one, chunk("c1", OTHER, []), against=[path])
    assert [(kind, chunk_id) for kind, chunk_id, _ in kinds] == [(Kind.SEEN, "c0")]
    assert name in kinds[0][2]


def test_a_training_table_and_a_directory(found, tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    pq.write_table(pa.table({"text": ["nothing", LONG], "n": [1, 2]}), folder / "train.parquet")
    assert [it[0] for it in found(chunk(), against=[folder])] == [Kind.SEEN]


def test_files_of_a_directory_that_are_not_looked_at_are_told(tmp_path):
    folder = tmp_path / "data"
    (folder / "folder.json").mkdir(parents=True)
    (folder / "train.TXT").write_text(LONG)
    (folder / "train.conll").write_text("Ada\tB-P\n")
    gold = write_gold(tmp_path / "gold.json", chunk())
    checked = check_gold(gold, Settings(SchemaConfig()), [folder], has_schema=False)
    assert [it.chunk_id for it in checked.findings if it.kind is Kind.SEEN] == ["c0"]
    assert any(
        f"1 files of another kind than text and JSON, for example {folder / 'train.conll'}" in it
        for it in checked.skipped
    )


def test_what_only_shares_common_words_is_not_seen(found, tmp_path):
    (tmp_path / "t.txt").write_text("Charles Babbage had designed it in London. Ada Lovelace wrote the first program.")
    assert found(chunk(), against=[tmp_path / "t.txt"]) == []


def test_an_example_in_the_schema_is_seen_by_the_llm(tmp_path):
    engines = {"llm": {"kind": "openai", "model": "m"}}
    schema = {"entity_types": {"person": f"as in: {LONG}"}}
    methods = {"llm": {"entities": "llm", "relations": "llm"}}
    run = make_run(tmp_path / "run", [LONG, OTHER], engines=engines, methods=methods, schema=schema)
    path = write_gold(tmp_path / "gold.json", chunk())
    found = check_gold(path, Settings(run.config.schema_, run), [], has_schema=True)
    assert [(it.kind, it.detail.split(" are in ")[1]) for it in found.findings] == [(Kind.SEEN, "the prompt of llm")]


def test_the_corpus_of_a_run_is_compared(tmp_path):
    run = make_run(tmp_path / "run", [LONG, OTHER])
    path = write_gold(tmp_path / "gold.json", chunk(), chunk("c1", "Another text.", []), chunk("c7", "Gone.", []))
    found = check_gold(path, Settings(run.config.schema_, run), [], has_schema=True)
    kinds = [(it.kind, it.chunk_id) for it in found.findings if it.kind not in NOTES]
    assert kinds == [(Kind.OTHER_TEXT, "c1"), (Kind.NOT_IN_CORPUS, "c7")]


def test_names_that_stand_unmarked_make_gold_suspect(found):
    texts = [f"Ada Lovelace met number {at} of many people here." for at in range(5)]
    kinds = found(chunk("c0", texts[0]), *(chunk(f"c{at}", texts[at], []) for at in range(1, 5)))
    assert [kind for kind, *_ in kinds if kind is not Kind.DUPLICATE] == [Kind.SUSPECT]
    marked = [chunk(f"c{at}", texts[at]) for at in range(5)]
    assert all(kind is Kind.DUPLICATE for kind, *_ in found(*marked))
    declared = found(*(chunk(f"c{at}", texts[at], exhaustive=False) for at in range(5)), notes=True)
    assert [kind for kind, *_ in declared].count(Kind.PARTIAL) == 5


def test_gold_made_from_triples_is_suspect(found):
    names = [f"Name{at} Surname" for at in range(40)]
    chunks = [
        chunk(f"c{at}", f"{a} knew {b} in the year {at}.", [(a, "person"), (b, "person")], [(a, "knows", b)])
        for at, (a, b) in enumerate(zip(names[::2], names[1::2], strict=True))
    ]
    assert [kind for kind, *_ in found(*chunks)] == [Kind.SUSPECT]
    chunks[0]["ground_truth_relations"] = []
    assert found(*chunks) == []


def test_a_part_of_a_longer_name_is_not_unmarked(found):
    long = chunk("c1", "The Ada Lovelace Institute opened.", [("Ada Lovelace Institute", "organization")])
    assert found(chunk(), long, notes=True) == []


def test_strict_exits_with_1_on_faults_alone(tmp_path):
    good = write_gold(tmp_path / "good.json", chunk(origin="pseudo"), chunk("c1", OTHER, []))
    bad = write_gold(tmp_path / "bad.json", chunk(relations=[("Nobody", "uses", "nothing")]))
    run = CliRunner().invoke
    assert run(commands, ["check", str(good), "--strict"]).exit_code == 0
    assert run(commands, ["check", str(bad)]).exit_code == 0
    assert run(commands, ["check", str(bad), "--strict"]).exit_code == 1
    told = json.loads(run(commands, ["check", str(bad), "--json"]).stdout)
    assert (told["faults"], len(told["findings"])) == (2, 2)
    assert "loose" not in run(commands, ["check", str(good)]).stdout


def test_training_data_that_cannot_be_read_are_an_error(found, tmp_path):
    (tmp_path / "t.json").write_text("{broken")
    with pytest.raises(UserError, match="cannot be read"):
        found(chunk(), against=[tmp_path / "t.json"])
