"""The config and its file: a mistake is answered with its key, its line and the nearest valid name."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from kgscale.config import Config
from kgscale.config.section import Section
from kgscale.configfile import check_config, load_config
from kgscale.errors import UserError


def load(tmp_path, text, *overrides):
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(path, overrides)


def refusal(tmp_path, text, *overrides):
    with pytest.raises(UserError) as caught:
        load(tmp_path, text, *overrides)
    assert caught.value.exit_code == 2
    return str(caught.value).replace(f"{tmp_path}/", "")


MISTAKES = {
    "unknown key": ("corpus: {path: x}\nmethod: {}\n", "config.yaml:2: unknown key `method`; did you mean `methods`?"),
    "unknown key, deep": (
        "corpus:\n  path: x\nengines:\n  llm:\n    max_token: 5\n",
        "config.yaml:5: unknown key `engines.llm.max_token`; did you mean `max_tokens`?",
    ),
    "unknown key of the other kind": (
        "corpus: {path: x}\nengines:\n  gliner:\n    max_model_len: 5\n",
        "config.yaml:4: unknown key `engines.gliner.max_model_len`; ",
    ),
    "unknown key in a fallback": (
        "corpus: {path: x}\nmethods:\n  h:\n    entities: gliner\n    relations: llm\n    fallback: {min_scores: 1}\n",
        "config.yaml:6: unknown key `methods.h.fallback.min_scores`; did you mean `min_score`?",
    ),
    "wrong type": (
        "corpus: {path: x}\nengines:\n  llm:\n    max_tokens: many\n",
        "config.yaml:4: `engines.llm.max_tokens`: input should be a valid integer",
    ),
    "out of range": (
        "corpus: {path: x}\nengines:\n  gliner: {threshold: 1.5}\n",
        "config.yaml:3: `engines.gliner.threshold`: input should be less than or equal to 1",
    ),
    "unknown engine kind": (
        "corpus: {path: x}\nengines:\n  llm: {kind: vlm}\n",
        "config.yaml:3: `engines.llm.kind` must be one of gliner, vllm, openai",
    ),
    "a method's engine": (
        "corpus: {path: x}\nmethods:\n  mine:\n    entities: glinr\n",
        "config.yaml:4: `methods.mine.entities`: no engine is named 'glinr'; there are: gliner, llm",
    ),
    "relations by another GLiNER": (
        "corpus: {path: x}\nmethods:\n  mine: {entities: llm, relations: gliner}\n",
        "config.yaml:3: `methods.mine.relations`: 'gliner' is a GLiNER engine, which relates no entities but its own",
    ),
    "a GLiNER to fall back to": (
        "corpus: {path: x}\nmethods:\n  h: {entities: gliner, relations: gliner, fallback: {engine: gliner}}\n",
        "config.yaml:3: `methods.h.fallback`: only GLiNER entities can fall back to an LLM",
    ),
    "another fallback engine": (
        "corpus: {path: x}\nmethods:\n  h: {entities: gliner, relations: llm, fallback: {engine: big}}\n",
        "config.yaml:3: `methods.h.fallback.engine`: must be the engine of `relations`, 'llm'",
    ),
    "a method name that is no directory": (
        "corpus: {path: x}\nmethods:\n  ../x: {entities: gliner}\n",
        "config.yaml:2: `methods`: the name '../x': use letters, digits",
    ),
    "an engine name that is no directory": (
        "corpus: {path: x}\nengines:\n  gliner/x: {}\n",
        "config.yaml:2: `engines`: the name 'gliner/x': use letters, digits",
    ),
    "no corpus": ("run: x\n", "config.yaml:1: `corpus` is needed"),
    "an empty file": ("", "`corpus` is needed"),
    "a list": ("- corpus\n", "config.yaml: a config is a mapping of keys to values"),
    "the same key twice": (
        "corpus: {path: x}\nseed: 1\nseed: 2\n",
        "config.yaml:3: the key `seed` stands twice (first on line 2)",
    ),
    "no YAML": ("corpus: {path: x\nseed: 1\n", "config.yaml:2: not valid YAML"),
    "no types": ("corpus: {path: x}\nschema:\n  entity_types: []\n", "config.yaml:3: `schema.entity_types`: "),
    "a type twice": (
        "corpus: {path: x}\nschema:\n  entity_types: [a, b, a]\n",
        "config.yaml:3: `schema.entity_types`: 'a' stands twice",
    ),
    "types in lists": ("corpus: {path: x}\nschema:\n  entity_types: [[a]]\n", "config.yaml:3: `schema.entity_types"),
    "relations of no type": (
        "corpus: {path: x}\nschema:\n  relation_types: []\n",
        "config.yaml:3: `schema.relation_types`: ",
    ),
    "a loop": ("corpus: &it\n  path: x\n  chunk: *it\n", "config.yaml"),
    "an overlap too large": (
        "corpus:\n  path: x\n  chunk: {words: 10, overlap: 9}\n",
        "config.yaml:3: `corpus.chunk`: `overlap` must be at most half of the chunk size",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told_with_its_place(tmp_path, name):
    text, told = MISTAKES[name]
    assert told in refusal(tmp_path, text)


def test_every_mistake_is_told_at_once(tmp_path):
    told = refusal(tmp_path, "corpus: {path: x}\nsed: 1\nlimits: {attempts: 0}\n")
    assert [line.split(":")[1] for line in told.splitlines()] == ["3", "2"]


def test_a_file_that_cannot_be_read(tmp_path):
    (tmp_path / "demo.yaml").write_text("corpus: {path: x}")
    with pytest.raises(UserError, match=r"there is no config file .*dmo.yaml\n  did you mean .*demo.yaml"):
        load_config(tmp_path / "dmo.yaml")
    with pytest.raises(UserError, match="there is no directory"):
        load_config(tmp_path / "nowhere" / "demo.yaml")
    with pytest.raises(UserError, match="cannot read the config file"):
        load_config(tmp_path)
    (tmp_path / "latin.yaml").write_bytes("corpus: {path: caf\xe9}".encode("latin-1"))
    with pytest.raises(UserError, match="cannot read the config file"):
        load_config(tmp_path / "latin.yaml")


def test_short_forms(tmp_path):
    config = load(
        tmp_path,
        "\ufeffcorpus: {path: x}\n"
        "schema:\n  entity_types: [org, person]\n  relation_types: {owns: holds shares of, uses: ~}\n"
        "engines:\n  gliner-big: ~\n  llm: {model: owner/name}\n"
        "methods:\n  m: {entities: gliner-big, relations: llm}\n",
    )
    assert config.schema_.entity_types == {"org": None, "person": None}
    assert config.schema_.relation_types["owns"].description == "holds shares of"
    assert [engine.kind for engine in config.engines.values()] == ["gliner", "vllm"]


@pytest.mark.parametrize(
    ("override", "path", "value"),
    [
        ("seed=3", ("seed",), 3),
        ("engines.llm.model=owner/name", ("engines", "llm", "model"), "owner/name"),
        ("llm.model=owner/name", ("engines", "llm", "model"), "owner/name"),
        ("gliner.threshold=0.3", ("engines", "gliner", "threshold"), 0.3),
        ("cluster.num_cpus=4", ("cluster", "num_cpus"), 4),
        ("schema.entity_types=[a, b]", ("schema", "entity_types"), {"a": None, "b": None}),
        (
            "schema.relation_types.works_for.source=person",
            ("schema", "relation_types", "works_for", "source"),
            ("person",),
        ),
        ("schema.entity_types.person=a human being", ("schema", "entity_types", "person"), "a human being"),
        ("methods.hybrid.fallback={}", ("methods", "hybrid", "fallback", "engine"), "llm"),
        ("gold=null", ("gold",), None),
        ("run=a=b", ("run",), "a=b"),
    ],
)
def test_an_override_reaches_its_field_and_leaves_the_others(tmp_path, override, path, value):
    text = "corpus: {path: x}\ngold: g.json\n"
    plain, changed = load(tmp_path, text), load(tmp_path, text, override)
    at = changed.model_dump(by_alias=True)
    for part in path:
        at = at[part]
    assert at == value
    assert set(changed.engines) == set(plain.engines)
    assert set(changed.methods) == set(plain.methods)
    if override.startswith("schema.") and len(path) > 2:
        assert set(changed.schema_.relation_types) == set(plain.schema_.relation_types)
        assert set(changed.schema_.entity_types) == set(plain.schema_.entity_types)


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("seed", "--set seed: write it as key=value"),
        ("=3", "write it as key=value"),
        ("a..b=3", "write it as key=value"),
        ("seed=[", "the value is not valid YAML"),
        ("llm={model: a/b, model: c/d}", "the key `model` stands twice"),
        ("schema.entity_types=&a [*a]", "the value is not valid YAML"),
        ("seed.x=3", "`seed` has no fields of its own"),
        ("sed=3", "unknown key `sed`; did you mean `seed`?"),
        ("llm.max_token=3", "unknown key `engines.llm.max_token`; did you mean `max_tokens`?"),
        ("limits.attempts=0", "`limits.attempts`: input should be greater than or equal to 1"),
    ],
)
def test_a_wrong_override_is_refused(tmp_path, override, told):
    assert told in refusal(tmp_path, "corpus: {path: x}\nseed: 1\n", override)


def outcome(read, *arguments):
    """Why a config is refused; of a good one, that it is one; any other error is not caught."""
    try:
        read(*arguments)
    except UserError as error:
        return str(error)
    return "c.yaml is a config"


KEYS = st.sampled_from(
    [
        "corpus",
        "path",
        "schema",
        "entity_types",
        "relation_types",
        "engines",
        "llm",
        "gliner",
        "methods",
        "entities",
        "relations",
        "fallback",
        "engine",
        "kind",
        "openai",
        "compare",
        "matrix",
        "chunk",
        "limits",
        "x",
        "run",
    ]
)
LEAVES = st.none() | st.booleans() | st.integers(-2, 2) | st.floats() | KEYS | st.dates()
VALUES = st.recursive(
    LEAVES,
    lambda it: st.lists(it, max_size=3) | st.dictionaries(KEYS | st.integers(0, 2), it, max_size=4),
    max_leaves=20,
)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_whatever_is_in_the_file_it_is_a_config_or_refused(values):
    assert outcome(check_config, {"corpus": {"path": "x"}, **values}, "config.yaml")


@given(st.text(st.sampled_from("abc:{}[]-&*!|>'\"#%@`?, \n\t0\x00é"), max_size=40))
def test_whatever_bytes_are_in_the_file_it_is_refused_or_read(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("configs") / "c.yaml"
    path.write_text("corpus: {path: x}\n" + text, encoding="utf-8")
    assert "c.yaml" in outcome(load_config, path)


def test_a_config_survives_the_trip_through_the_run_directory():
    config = Config.model_validate(
        {
            "corpus": {"path": "x", "chunk": {"words": 10, "overlap": 2}},
            "engines": {"gliner": {}, "llm": {}, "web": {"kind": "openai", "model": "m"}},
            "methods": {"h": {"entities": "gliner", "relations": "llm", "fallback": {"when": ["empty"]}}},
        }
    )
    written = yaml.safe_load(yaml.safe_dump(config.model_dump(mode="json", by_alias=True)))
    assert Config.model_validate(written) == config


def sections(of: type[BaseModel] = Section) -> list[type[BaseModel]]:
    return [it for below in of.__subclasses__() for it in (below, *sections(below))]


def test_every_setting_has_its_line_of_documentation():
    assert len(sections()) > 15
    for section in sections():
        for name, field in section.model_fields.items():
            below = isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
            private = section.__name__.startswith("_") and name == "model"
            assert field.description or below or private or name == "kind", f"{section.__name__}.{name}"
