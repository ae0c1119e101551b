from kgscale.formats.pubtator import read_pubtator
from kgscale.records import GoldEntity, Relation

TEXT = """1|t|Aspirin and pain.
1|a|ASA helps; 痛 too.
1\t0\t7\tAspirin\tChemical\tD001
1\t18\t21\tASA\tChemical\tD001
1\t12\t16\tpain\tDisease\tD002,D003
1\t29\t30\t痛\tDisease\t-
1\t0\t4\tpain\tDisease\tD002
1\tTreats\tD001\tD003\tNovel
1\tTreats\tD001\tD009\tNo
1\twhat

2|a|No title.
3\t0\t1\tx\tC\tD
"""


def read(tmp_path, text=TEXT):
    path = tmp_path / "a.pubtator"
    path.write_text(text, encoding="utf-8")
    result = read_pubtator(path)
    return list(result.records), result.report


def test_mentions_relations_and_what_does_not_fit(tmp_path):
    records, report = read(tmp_path)
    assert [(it.gold.chunk_id, it.text) for it in records] == [
        ("1", "Aspirin and pain. ASA helps; 痛 too."),
        ("2", "No title."),
    ]
    assert records[0].gold.entities == [
        GoldEntity("Aspirin", "Chemical", 0, 7, ["ASA"]),
        GoldEntity("ASA", "Chemical", 18, 21, ["Aspirin"]),
        GoldEntity("pain", "Disease", 12, 16),
        GoldEntity("痛", "Disease", 29, 30),
        GoldEntity("pain", "Disease"),
    ]
    assert records[0].gold.relations == [Relation("Aspirin", "pain", "Treats")]
    assert report.skipped == 3
    assert [str(it).split(": ", 1)[0].rsplit(":", 1)[1] for it in report.problems.first if "skipped" in str(it)] == [
        "10",
        "9",
        "13",
    ]


def test_numbers_of_any_length_and_strokes_in_a_title(tmp_path):
    records, report = read(tmp_path, f"1|t|x|a|y\n1\t{'9' * 5000}\t7\tx\tC\tD\n1\t²\t7\tx\tC\tD\n1\t0\t1\tx\tC\tD\n")
    assert [(it.gold.chunk_id, it.text, len(it.gold.entities)) for it in records] == [("1", "x|a|y", 1)]
    assert report.skipped == 2


def test_windows_line_ends(tmp_path):
    assert [it.gold for it in read(tmp_path, TEXT.replace("\n", "\r\n"))[0]] == [it.gold for it in read(tmp_path)[0]]
