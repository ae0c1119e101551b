"""Annotated texts for round trips: what hypothesis draws, and what is compared."""

from hypothesis import strategies as st

from kgscale.formats import Record
from kgscale.records import GoldChunk, GoldEntity, Origin, Relation

WORDS = st.text(st.sampled_from("abAB1éß苹果ิ-_.,'😀"), min_size=1, max_size=4)
TYPES = st.sampled_from(["person", "ORG", "a<b&\"c'", "机构", "part-of"])
IDS = st.text(st.sampled_from("abc12-_./ ü"), min_size=1, max_size=6).filter(str.strip)


@st.composite
def texts(draw, between=(" ", "\n", "  ", "\r\n", "")):
    words = draw(st.lists(WORDS, min_size=1, max_size=8))
    return "".join(word + draw(st.sampled_from(between)) for word in words)


@st.composite
def records(draw, text=texts(), types=TYPES, origins=st.sampled_from(Origin), aliases=False):  # noqa: B008
    """A text with entities at their places, each with a visible name, and relations between their names."""
    body = draw(text)
    entities = []
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(body) - 1))
        end = draw(st.integers(start + 1, len(body)))
        if body[start:end].strip():
            others = draw(st.lists(WORDS, max_size=1)) if aliases else []
            entities.append(GoldEntity(body[start:end], draw(types), start, end, others))
    names = st.sampled_from([it.text for it in entities] or [""])
    relations = draw(st.lists(st.builds(Relation, names, names, types), max_size=3)) if entities else []
    gold = GoldChunk(draw(IDS), entities, relations, draw(origins), body)
    return Record(draw(IDS), body, gold)


def record_lists(**options):
    return st.lists(records(**options), min_size=1, max_size=3, unique_by=lambda it: it.gold.chunk_id.lower())


def names(record):
    """What a format without offsets can hold."""
    return {(it.text, it.type) for it in record.gold.entities}


def spans(record):
    return sorted((it.start, it.end, it.text, it.type) for it in record.gold.entities)


def triples(record):
    return {(it.source, it.type, it.target) for it in record.gold.relations}


def pairs(record):
    return {(it.source, it.target) for it in record.gold.relations}
