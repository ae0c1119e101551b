import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kgscale.errors import UserError
from kgscale.formats import jsonfile
from kgscale.formats.jsonfile import json_items, json_members

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
INDENTS = st.sampled_from([None, 0, 2])


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    """So that every border of a piece falls somewhere inside a value."""
    monkeypatch.setattr(jsonfile, "_READ", 3)


def values(items):
    return [value for _, value in items]


@settings(max_examples=150, deadline=None)
@given(st.lists(VALUES, max_size=5), INDENTS, st.booleans())
def test_a_list_is_read_as_json_reads_it(tmp_path_factory, given_values, indent, ascii_only):
    path = tmp_path_factory.mktemp("x") / "a.json"
    path.write_text(json.dumps(given_values, indent=indent, ensure_ascii=ascii_only), encoding="utf-8")
    assert values(json_items(path)) == given_values
    wrapped = {"before": given_values, "k": given_values, "after": 1}
    path.write_text(json.dumps(wrapped, indent=indent, ensure_ascii=ascii_only), encoding="utf-8")
    assert values(json_items(path, "k")) == given_values


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.text(max_size=3), VALUES, max_size=4), INDENTS)
def test_an_object_is_read_as_json_reads_it(tmp_path_factory, value, indent):
    path = tmp_path_factory.mktemp("x") / "a.json"
    path.write_text(json.dumps(value, indent=indent), encoding="utf-8")
    assert {key: it for _, key, it in json_members(path)} == value


@settings(max_examples=100, deadline=None)
@given(st.lists(VALUES, min_size=1, max_size=5), st.integers(1, 200))
@example([10.0], 4)
def test_a_cut_list_keeps_what_is_before_the_cut(tmp_path_factory, given_values, cut):
    path = tmp_path_factory.mktemp("x") / "a.json"
    whole = json.dumps(given_values)
    path.write_text(whole[: max(1, len(whole) - cut)])
    *kept, error = values(json_items(path))
    assert kept == given_values[: len(kept)]
    assert isinstance(error, UserError)
    assert "broken JSON" in error.message


@pytest.mark.parametrize(
    ("content", "kept", "where", "problem"),
    [
        ('[1,\n2,\n{"a": }, 3]', [1, 2], ":3", "Expecting value"),
        ("[1,\n 2 3]", [1, 2], ":2", "`,` or `]` is missing"),
        ("[1, 2,]", [1, 2], ":1", "a value is missing after the comma"),
        ("[1]\n[2]", [1], ":2", "something follows"),
        ('["a', [], ":1", "Unterminated string"),
        ("[" * 5000, [], ":1", "nested too deeply"),
        (b'["a",\n"\xff"]', ["a"], ":2", "is not UTF-8"),
        (b'["a", "\xc3', ["a"], ":1", "is not UTF-8"),
    ],
)
def test_where_it_breaks_is_told(tmp_path, content, kept, where, problem):
    path = tmp_path / "a.json"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    *found, error = values(json_items(path))
    assert found == kept
    assert isinstance(error, UserError)
    assert str(error).startswith(f"{path}{where}:")
    assert problem in error.message


def test_marks_and_line_ends(tmp_path):
    for encoding in ("utf-8-sig", "utf-16"):
        path = tmp_path / f"{encoding}.json"
        path.write_text('[\r\n"é😀",\r\n2]', encoding=encoding, newline="")
        assert [(where.rpartition(":")[2], value) for where, value in json_items(path)] == [("2", "é😀"), ("3", 2)]


def test_json_lines_go_on_after_a_broken_one(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"a": 1}\n{"a":\n{"a": NaN}\n')
    first, second, third = values(json_items(path))
    assert first == {"a": 1}
    assert isinstance(second, UserError)
    assert third["a"] != third["a"]


def test_a_value_without_end_does_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(jsonfile, "_READ", 2**10)
    monkeypatch.setattr(jsonfile, "MAX_LINE", 2**14)
    path = tmp_path / "a.json"
    path.write_text('[1, "' + "x" * 2**18)
    first, error = values(json_items(path))
    assert first == 1
    assert "a value is longer than" in error.message
