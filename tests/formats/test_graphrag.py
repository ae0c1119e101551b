import polars as pl
import pytest

from kgscale.errors import UserError
from kgscale.formats.graphrag import read_graphrag
from kgscale.records import GoldEntity, Origin, Relation

UNITS = {
    "id": ["u1", "u2", "u3"],
    "text": ["Alex Mercer met Taylor Cruz.", "Alex Mercer slept.", "Nothing."],
    "document_id": ["d1", "d1", None],
}
ENTITIES = {
    "title": ["ALEX MERCER", "ALEX MERCER", "TAYLOR CRUZ"],
    "type": ["PERSON", "ORGANIZATION", None],
    "text_unit_ids": [["u1", "u2"], ["u2"], ["u1", "u1"]],
}
RELATIONSHIPS = {
    "source": ["ALEX MERCER", "TAYLOR CRUZ", "ALEX MERCER"],
    "target": ["TAYLOR CRUZ", "ALEX MERCER", "DULCE"],
    "text_unit_ids": [["u1"], ["u1"], ["u2", "u9"]],
}


def write(folder, units=UNITS, entities=ENTITIES, relationships=RELATIONSHIPS, prefix=""):
    folder.mkdir(parents=True, exist_ok=True)
    for name, table in (("text_units", units), ("entities", entities), ("relationships", relationships)):
        pl.DataFrame(table).write_parquet(folder / f"{prefix}{name}.parquet")
    return folder


def read(folder):
    result = read_graphrag(folder)
    return list(result.records), result.report


def test_the_graph_is_taken_apart_by_text_unit(tmp_path):
    records, report = read(write(tmp_path / "project/output").parent)
    assert [(it.gold.chunk_id, it.doc_id, it.gold.origin) for it in records] == [
        ("u1", "d1", Origin.PSEUDO),
        ("u2", "d1", Origin.PSEUDO),
        ("u3", "u3", Origin.PSEUDO),
    ]
    assert records[0].gold.entities == [
        GoldEntity("ALEX MERCER", "PERSON", 0, 11),
        GoldEntity("TAYLOR CRUZ", "", 16, 27),
    ]
    # Both directions and a name that is no entity stay; a title with two types is two entities.
    assert records[0].gold.relations == [
        Relation("ALEX MERCER", "TAYLOR CRUZ", ""),
        Relation("TAYLOR CRUZ", "ALEX MERCER", ""),
    ]
    assert [it.type for it in records[1].gold.entities] == ["PERSON", "ORGANIZATION"]
    assert records[1].gold.relations == [Relation("ALEX MERCER", "DULCE", "")]
    assert records[2].gold.entities == []
    assert dict(report.problems.counts) == {"left out what belongs to no text unit": 1}
    assert str(report.problems.first[0]).startswith(f"{tmp_path / 'project/output/relationships.parquet'}, u9:")


def test_what_names_no_text_unit_is_told(tmp_path):
    entities = ENTITIES | {"text_unit_ids": [["u1", "u8"], None, []]}
    _, report = read(write(tmp_path, entities=entities))
    assert dict(report.problems.counts) == {"left out what belongs to no text unit": 4}
    assert report.skipped == 4


def test_of_two_generations_in_a_folder_the_later_counts(tmp_path):
    write(tmp_path, prefix="create_final_", units=UNITS | {"text": ["old"] * 3})
    write(tmp_path)
    assert read(tmp_path)[0][0].text == UNITS["text"][0]


@pytest.mark.parametrize("name", ["text_units", "entities", "relationships"])
def test_a_damaged_file_is_named(tmp_path, name):
    file = write(tmp_path) / f"{name}.parquet"
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(UserError, match=f"{name}.parquet: damaged Parquet") as told:
        read(tmp_path)
    assert told.value.where == str(file)


def test_ids_that_became_floats_are_joined(tmp_path):
    units = UNITS | {"id": [1.0, 2.0, float("nan")]}
    entities = ENTITIES | {"text_unit_ids": [[1.0, 2.5], [2.0], [float("nan")]]}
    relationships = RELATIONSHIPS | {"text_unit_ids": [[1], [1], [2]]}
    records, report = read(write(tmp_path, units, entities, relationships))
    assert [it.gold.chunk_id for it in records] == ["1", "2"]
    assert [len(it.gold.entities) for it in records] == [1, 1]
    assert [len(it.gold.relations) for it in records] == [2, 1]
    assert dict(report.problems.counts) == {"skipped a text unit": 1, "left out what belongs to no text unit": 2}


def test_the_older_names(tmp_path):
    units = {key: value for key, value in UNITS.items() if key != "document_id"} | {
        "document_ids": [["d1", "d2"], ["d1"], []]
    }
    entities = {"name" if key == "title" else key: value for key, value in ENTITIES.items()}
    old, _ = read(write(tmp_path / "old", units, entities, prefix="create_final_"))
    new, _ = read(write(tmp_path / "new"))
    assert old == new


def test_what_is_missing_or_damaged_is_named(tmp_path):
    with pytest.raises(UserError, match=r"no text_units\.parquet"):
        read(tmp_path)
    folder = write(tmp_path / "a")
    (folder / "entities.parquet").unlink()
    with pytest.raises(UserError, match=r"no entities\.parquet"):
        read(folder)
    write(folder, entities={"title": ["x"]})
    with pytest.raises(UserError, match="has no column text_unit_ids"):
        read(folder)
    write(folder, units={"id": ["u"], "body": ["x"]})
    with pytest.raises(UserError, match="has no column text"):
        read(folder)
    write(folder)
    for name in ("text_units", "entities"):
        whole = (folder / f"{name}.parquet").read_bytes()
        (folder / f"{name}.parquet").write_bytes(whole[: len(whole) // 2])
        with pytest.raises(UserError, match="damaged Parquet"):
            read(folder)
    write(tmp_path / "b")
    with pytest.raises(UserError, match="several outputs"):
        read(tmp_path)


def test_numbers_as_ids_and_empty_texts(tmp_path):
    units = {"id": [1, 2], "text": ["Ada", None], "document_id": [7, 7]}
    entities = {"title": ["Ada"], "type": ["p"], "text_unit_ids": [[1]]}
    relationships = {"source": ["Ada"], "target": ["Ada"], "text_unit_ids": [[1]]}
    (record,), report = read(write(tmp_path, units, entities, relationships))
    assert (record.gold.chunk_id, record.doc_id) == ("1", "7")
    assert record.gold.entities == [GoldEntity("Ada", "p", 0, 3)]
    assert dict(report.problems.counts) == {"skipped a text unit": 1}


def test_bytes_that_are_no_text_are_told_as_damage(tmp_path):
    folder = write(tmp_path)
    pl.DataFrame(UNITS).write_parquet(folder / "text_units.parquet", compression="uncompressed", statistics=False)
    data = (folder / "text_units.parquet").read_bytes()
    (folder / "text_units.parquet").write_bytes(data.replace(b"Nothing.", b"Noth\xb3ng."))
    with pytest.raises(UserError, match="damaged Parquet: 'utf-8' codec"):
        read(folder)
