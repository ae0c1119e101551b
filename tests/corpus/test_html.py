from pathlib import Path

import pytest

from kgscale.corpus.html import html_to_text
from kgscale.errors import UserError

POSTGRES = Path("/usr/share/doc/postgresql-doc-15/html")


def text_of(markup):
    return html_to_text(markup.encode(), "page.html")


def test_blocks_become_paragraphs_and_headings_lines():
    page = """<html><head><title>Page</title><style>p {}</style></head><body>
      <nav>Home</nav><div class="navheader">Prev Next</div>
      <h1>Big <em>title</em></h1><p>One
      two &amp; <b>three</b>&nbsp;four.</p><p>Five<br>six.</p>
      <script>alert(1)</script><!-- hidden --></body></html>"""
    assert text_of(page) == "# Big title\n\nOne two & three four.\n\nFive\nsix."


def test_lists_tables_and_code_keep_their_lines():
    page = "<ul><li>a</li><li><p>b</p></li></ul><table><tr><th>x</th><td>1</td></tr><tr><td>y</td></tr></table>"
    assert text_of(page) == "- a\n- b\n\nx 1\ny"
    assert text_of("<p>run:</p><pre>if a:\n    b()\n</pre>") == "run:\n\nif a:\n    b()"


def test_the_title_stands_in_for_a_missing_heading():
    assert text_of("<title>T</title><p>x") == "# T\n\nx"


def test_main_is_the_main_text():
    assert text_of("<body><p>menu</p><main><p>text</p></main><p>foot</p></body>") == "text"


@pytest.mark.parametrize(
    "data",
    [
        "<meta charset='gb18030'><p>数据库".encode("gb18030"),
        "<meta charset='utf-16'><p>数据库".encode(),
        "<p>数据库".encode("utf-16"),
        "\ufeff<p>数据库".encode(),
    ],
)
def test_encodings(data):
    assert html_to_text(data, "page.html") == "数据库"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"<p>a\n\xff", r"page.html:2: is not UTF-8: byte 0xff"),
        (b"<meta charset='klingon'>x", "unknown encoding 'klingon'"),
        (b"<meta charset='hex'>x", "unknown encoding 'hex'"),
        (b"<p>a<![n>", "page.html: cannot be parsed as HTML"),
    ],
)
def test_bytes_that_do_not_fit_are_named(data, problem):
    with pytest.raises(UserError, match=problem):
        html_to_text(data, "page.html")


def test_entities_are_not_expanded():
    bomb = '<!DOCTYPE x [<!ENTITY a "lol"><!ENTITY b "&a;&a;">]><p>&b;</p>'
    assert "lollol" not in text_of(bomb)


@pytest.mark.timeout(30)
def test_deep_nesting_is_read():
    assert text_of("<div>" * 50_000 + "x") == "x"


@pytest.mark.skipif(not POSTGRES.is_dir(), reason="postgresql-doc-15 is not installed")
def test_the_postgresql_documentation():
    text = html_to_text((POSTGRES / "tutorial-sql-intro.html").read_bytes(), "tutorial-sql-intro.html")
    assert text.startswith("## 2.1. Introduction\n\nThis chapter provides an overview of how to use SQL")
    assert text.endswith("The commands used in this section are in the file basics.sql.")
    assert "Prev" not in text
    assert "$ cd .../src/tutorial\n$ make" in text
