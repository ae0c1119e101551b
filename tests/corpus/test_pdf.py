"""PDFs among the documents: read by pypdf where it is installed, left out and told where it is not."""

import pytest

from kgscale.config import CorpusConfig
from kgscale.corpus import pdf, prepare_corpus
from kgscale.errors import UserError
from kgscale.store import Store


def pdf_of(*pages):
    """A small PDF with a line of text on each page, offsets and all."""
    kids = " ".join(f"{4 + 2 * it} 0 R" for it in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    body, offsets = "%PDF-1.4\n", []
    for number, it in enumerate(objects, start=1):
        offsets.append(len(body))
        body += f"{number} 0 obj\n{it}\nendobj\n"
    table = "".join(f"{it:010d} 00000 n \n" for it in offsets)
    size = len(objects) + 1
    body += f"xref\n0 {size}\n0000000000 65535 f \n{table}"
    return (body + f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{body.index('xref')}\n%%EOF\n").encode()


def prepare(path, tmp_path):
    store = Store(tmp_path / "run")
    summary = prepare_corpus(CorpusConfig(path=str(path)), store, say=lambda _: None)
    return store.parquet("chunks.parquet").read()["text"].to_pylist(), summary


@pytest.fixture
def docs(tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/a.pdf").write_bytes(pdf_of("Ada Lovelace met Charles Babbage.", "It was in London."))
    (tmp_path / "docs/b.txt").write_text("Plain.")
    return tmp_path / "docs"


def test_the_text_of_a_pdf(docs, tmp_path):
    pytest.importorskip("pypdf")
    texts, _ = prepare(docs, tmp_path)
    assert texts == ["Ada Lovelace met Charles Babbage.\n\nIt was in London.", "Plain."]
    assert prepare(docs / "a.pdf", tmp_path / "one")[0] == texts[:1]


@pytest.mark.parametrize("damage", [b"", b"%PDF-1.4\nnothing", b"\x00" * 100])
def test_a_damaged_pdf_is_named(docs, tmp_path, damage):
    pytest.importorskip("pypdf")
    (docs / "bad.pdf").write_bytes(damage)
    with pytest.raises(UserError, match=r"bad\.pdf: cannot be read as a PDF"):
        prepare(docs, tmp_path)


def test_without_pypdf_pdfs_are_left_out_and_told(docs, tmp_path, monkeypatch):
    monkeypatch.setattr(pdf.importlib.util, "find_spec", lambda _: None)
    texts, summary = prepare(docs, tmp_path)
    assert texts == ["Plain."]
    assert any("kgscale[pdf]" in it.message for it in summary.notices)
    with pytest.raises(UserError, match="a PDF needs pypdf"):
        prepare(docs / "a.pdf", tmp_path)
