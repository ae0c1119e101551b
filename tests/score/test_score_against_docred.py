"""Relations beside DocRED's official scores, on Re-DocRED: the same numbers where a name is one entity of its document.

DocRED (Yao et al., ACL 2019, section 5) compares facts: a document's title, a relation, and the numbers of head and
tail among the document's entities, each a set of mentions. The precision in Ign F1 leaves out the correct facts that
the training set has under any two names of their ends. In kgscale a document is a chunk, an entity with all its names a
gold entity with aliases, a fact a relation between any names of its ends, and the mode is `pair+type`.
"""

import json
import random
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import pytest
import score_oracle as oracle
from score_helpers import answer, gold_chunk, make_run

from kgscale.records import GoldEntity, Relation
from kgscale.score.scorer import score_run
from kgscale.score.tables import read_counts

MODE = "pair+type"


class Fact(NamedTuple):
    title: str
    relation: str
    head: int
    tail: int


@dataclass
class Document:
    title: str
    entities: list
    """The names of each entity."""
    facts: set

    def named(self, fact):
        """The fact under all names of its ends."""
        return {(a, b, fact.relation) for a in self.entities[fact.head] for b in self.entities[fact.tail]}

    def clear(self):
        """Whether no name, in normal form, is that of two entities."""
        names = Counter(name for it in self.entities for name in {oracle.key(text) for text in it})
        return max(names.values()) == 1


def official(documents, found, trained=frozenset()):
    """Precision, recall, F1 and Ign F1; `trained` has the training facts as two names and a relation."""
    gold = {fact for it in documents for fact in it.facts}
    correct = gold & found
    seen = correct & known(documents, trained)
    precision, recall = len(correct) / len(found), len(correct) / len(gold)
    of_new = (len(correct) - len(seen)) / (len(found) - len(seen))
    return precision, recall, harmonic(precision, recall), harmonic(of_new, recall)


def known(documents, trained):
    """The gold facts that the training set has under some names."""
    return {fact for it in documents for fact in it.facts if it.named(fact) & trained}


def harmonic(precision, recall):
    return 2 * precision * recall / (precision + recall) if precision + recall else 0


def scored(path, documents, methods, rng):
    """A scored run whose methods found these facts, each under any names of its ends; it has every title in them."""
    entities = {it.title: it.entities for it in documents}
    titles = sorted({*entities, *(fact.title for facts in methods.values() for fact in facts)})

    def relation(fact):
        ends = entities.get(fact.title, [["head"], ["tail"]])
        return Relation(rng.choice(ends[fact.head]), rng.choice(ends[fact.tail]), fact.relation)

    def gold(it):
        things = [GoldEntity(name, "thing", aliases=others) for name, *others in it.entities]
        return gold_chunk(it.title, things, [relation(fact) for fact in sorted(it.facts)])

    def said(facts, title):
        return answer([], [relation(fact) for fact in sorted(facts) if fact.title == title])

    answers = {name: [said(facts, title) for title in titles] for name, facts in methods.items()}
    relations = sorted({fact.relation for facts in methods.values() for fact in facts})
    schema = {"entity_types": ["thing"], "relation_types": dict.fromkeys(relations)}
    run = make_run(path, titles, answers, [gold(it) for it in documents], schema=schema, shard_chunks=50)
    return run, {it.method: it.metric(MODE) for it in score_run(run).methods}


def perturbed(rng, documents):
    """Facts as a model might have found them: some missed, turned round or of another relation, and some made up."""
    relations = sorted({fact.relation for it in documents for fact in it.facts})
    found = set()
    for it in documents:
        for fact in sorted(it.facts):
            turned = fact._replace(head=fact.tail, tail=fact.head)
            other = fact._replace(relation=rng.choice(relations))
            found.update(rng.choices([[fact], [fact, turned], [turned], [other], []], [55, 5, 5, 10, 25])[0])
        ends = range(len(it.entities))
        found.update(Fact(it.title, rng.choice(relations), rng.choice(ends), rng.choice(ends)) for _ in range(5))
    return found


def test_the_same_f1_and_ign_f1_on_re_docred(data, tmp_path):
    documents = [
        Document(
            it["title"],
            [list(dict.fromkeys(mention["name"] for mention in mentions)) for mentions in it["vertexSet"]],
            {Fact(it["title"], label["r"], label["h"], label["t"]) for label in it["labels"]},
        )
        for it in json.loads(data("re_docred/dev_200docs.json").read_text())
    ]
    plain = [it for it in documents if it.clear()]
    assert 0.9 * len(documents) < len(plain) < len(documents)

    rng = random.Random(2019)
    found = perturbed(rng, plain)
    # Re-DocRED's training set is large: every fourth document stands for it.
    trained = {names for it in plain[::4] for fact in it.facts for names in it.named(fact)}
    run, metrics = scored(tmp_path, plain, {"all": found, "new": found - known(plain, trained)}, rng)
    precision, recall, f1, ign_f1 = official(plain, found, trained)

    it = metrics["all"]
    assert (it.precision, it.recall, it.f1) == pytest.approx((precision, recall, f1))
    counts = {row["doc_id"]: (row["tp"], row["fp"], row["fn"]) for row in read_counts(run, "all", MODE).to_dicts()}
    for document in plain:
        said = {fact for fact in found if fact.title == document.title}
        gold = document.facts
        assert counts[document.title] == (len(said & gold), len(said - gold), len(gold - said)), document.title

    # Ign F1 is no score of kgscale; its precision is that of the answers without the facts that are known.
    assert ign_f1 < f1 - 0.02
    assert harmonic(metrics["new"].precision, it.recall) == pytest.approx(ign_f1)


def test_reason_names_two_entities_of_one_name_are_one(tmp_path):
    """The band and the town cannot be told apart by what a model says, which is names."""
    facts = {Fact("A", "P131", 0, 2), Fact("A", "P495", 1, 2)}
    it = Document("A", [["Springfield"], ["Springfield", "The Springfields"], ["Ohio"]], facts)
    assert not it.clear()
    found = {Fact("A", "P131", 1, 2), Fact("A", "P495", 1, 2)}
    assert official([it], found)[:3] == (0.5, 0.5, 0.5)
    _, metrics = scored(tmp_path, [it], {"m": found}, random.Random(0))
    assert metrics["m"].f1 == 1


def test_reason_left_out_what_is_found_where_there_is_no_gold_is_not_wrong(tmp_path):
    it = Document("A", [["Ada"], ["London"]], {Fact("A", "P19", 0, 1)})
    found = {Fact("A", "P19", 0, 1), Fact("unknown", "P19", 0, 1)}
    assert official([it], found)[0] == 0.5
    run, metrics = scored(tmp_path, [it], {"m": found}, random.Random(0))
    assert metrics["m"].precision == 1
    assert score_run(run).methods[0].without_gold == 1
