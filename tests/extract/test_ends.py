"""What joins entities of types that the schema keeps apart is left out of a row, and counted; nothing else is."""

from hypothesis import given
from hypothesis import strategies as st

from kgscale.config import RelationType, SchemaConfig
from kgscale.extract.ends import Ends
from kgscale.records import Entity, Extraction, Relation, Status

ENTITY_TYPES = ["organization", "person", "location"]
TYPES = {
    "founded_by": RelationType(source=("organization",), target=("person",)),
    "made_by": RelationType(target=("organization", "person")),
    "partner_of": RelationType(source=("organization",), target=("person",), symmetric=True),
    "near": RelationType(),
}
ACME, ADA, PARIS = Entity("Acme", "organization"), Entity("Ada", "person"), Entity("Paris", "location")
NAMES = ("Acme", "Ada", "Paris", "nobody")


def row(*relations, entities=(ACME, ADA, PARIS)):
    return Extraction(
        "c", 0, "d", "llm", Status.OK, entities=list(entities), relations=[Relation(*it) for it in relations]
    )


def ends(types=TYPES):
    return Ends.of(SchemaConfig(entity_types=ENTITY_TYPES, relation_types=types))


def kept(*relations, entities=(ACME, ADA, PARIS), types=TYPES):
    found = ends(types).without_misfits(row(*relations, entities=entities))
    assert len(found.relations) + found.relations_left_out == len(relations)
    return [(it.source, it.target, it.type) for it in found.relations]


def test_ends_must_be_of_the_types_that_are_named():
    good = ("Acme", "Ada", "founded_by")
    assert kept(good, ("Ada", "Acme", "founded_by"), ("Acme", "Paris", "founded_by")) == [good]
    assert kept(("Paris", "Ada", "made_by"), ("Ada", "Paris", "made_by")) == [("Paris", "Ada", "made_by")]


def test_a_symmetric_relation_may_stand_either_way():
    assert kept(("Ada", "Acme", "partner_of"), ("Acme", "Ada", "partner_of"), ("Ada", "Paris", "partner_of")) == [
        ("Ada", "Acme", "partner_of"),
        ("Acme", "Ada", "partner_of"),
    ]


def test_what_is_not_known_is_let_pass():
    unknown = [("nobody", "Ada", "founded_by"), ("Paris", "Paris", "no such type"), ("Paris", "Acme", "near")]
    assert kept(*unknown) == unknown


def test_a_name_has_every_type_that_it_was_given_however_it_is_spelt():
    double = (Entity("Acme  Inc", "location"), Entity("ACME Inc", "organization"), ADA)
    assert kept(("acme inc", "ada", "founded_by"), entities=double) == [("acme inc", "ada", "founded_by")]


def test_counts_of_before_are_kept():
    first = ends().without_misfits(row(("Ada", "Acme", "founded_by")))
    assert (first.relations, first.relations_left_out) == ([], 1)
    assert ends().without_misfits(first) == first


def test_types_are_compared_as_scores_compare_them():
    entities = (Entity("Acme", "ORGANIZATION"), Entity("Ada", " Person"), Entity("Paris", "off the schema"))
    good = ("\uff21cme", "Ada", "Founded_By")  # a full-width A
    assert kept(good, ("Ada", "Acme", "FOUNDED_BY"), entities=entities) == [good]
    unknown = ("Paris", "Ada", "founded_by")
    assert kept(unknown, entities=entities) == [unknown]


RELATIONS = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES), st.sampled_from([*TYPES, "other"])))


@given(RELATIONS)
def test_a_schema_that_names_no_ends_changes_nothing(relations):
    plain = {name: RelationType(symmetric=it.symmetric) for name, it in TYPES.items()}
    assert ends(plain).without_misfits(row(*relations)) == row(*relations)
