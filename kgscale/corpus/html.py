"""The main text of an HTML page: blocks as paragraphs, headings as `# ` lines, navigation and scripts left out."""

import re
import warnings
from collections.abc import Iterator

from bs4 import BeautifulSoup
from bs4.dammit import EncodingDetector
from bs4.element import NavigableString, PageElement, Tag
from bs4.exceptions import ParserRejectedMarkup

from kgscale.corpus.files import decode
from kgscale.errors import UserError

_DROPPED = {"button", "head", "iframe", "nav", "noscript", "script", "select", "style", "svg", "template", "title"}
# How DocBook and Sphinx mark navigation; most other generators use <nav>.
_DROPPED_CLASSES = {"headerlink", "navfooter", "navheader", "related", "sphinxsidebar"}
_HEADINGS = {f"h{level}": f"{'#' * level} " for level in range(1, 7)}
_BLOCKS = {
    *_HEADINGS,
    *(
        "p",
        "div",
        "pre",
        "blockquote",
        "hr",
        "address",
        "details",
        "figure",
        "figcaption",
        "fieldset",
        "legend",
        "form",
    ),
    *("html", "body", "main", "article", "section", "aside", "header", "footer"),
    *("ul", "ol", "dl", "dt", "dd", "table", "thead", "tbody", "tfoot"),
}
# What is put before an element that is less than a block: a line of its own, or a gap.
_OPENED_BY = {"br": "\n", "tr": "\n", "caption": "\n", "li": "\n- ", "td": " ", "th": " "}


def html_to_text(data: bytes, name: str) -> str:
    """The text of a page; nothing is fetched and nothing in it is run.

    The encoding is that of a byte order mark, else the one that the page declares, else UTF-8. Raises `UserError` if
    the bytes do not fit it, or no HTML can be made out.
    """
    declared = EncodingDetector.find_declared_encoding(data, is_html=True) or "utf-8"
    try:
        # Whoever could read the declaration as bytes was not reading UTF-16 (the HTML standard says the same).
        markup = decode(data, name, "utf-8" if declared.startswith("utf-16") else declared)
    except (LookupError, ValueError):
        raise UserError(f"declares the unknown encoding {declared!r}", where=f"{name}:1") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the text looks like XML, a file name or a URL
        try:
            soup = BeautifulSoup(markup, "html.parser")
        except ParserRejectedMarkup as error:
            raise UserError(f"cannot be parsed as HTML: {error}", where=name) from None
    main = soup.find("main") or soup
    text = _tidy("".join(_pieces(main)))
    if soup.title and not main.find(list(_HEADINGS)):
        text = f"# {soup.title.get_text(' ', strip=True)}\n\n{text}"
    return text


def _pieces(root: Tag) -> Iterator[str]:
    """The text below a tag in reading order, with line ends where elements begin and end.

    A stack of what is still to come, since pages may be nested deeper than Python may recurse.
    """
    stack: list[tuple[PageElement | str, bool]] = [(root, False)]
    while stack:
        node, preformatted = stack.pop()
        if isinstance(node, Tag):
            if node.name in _DROPPED or not _DROPPED_CLASSES.isdisjoint(node.get_attribute_list("class")):
                continue
            border = "\n\n" if node.name in _BLOCKS else ""
            preformatted = preformatted or node.name in ("pre", "textarea")
            stack.append((border, True))
            stack.extend((child, preformatted) for child in reversed(node.contents))
            yield border + _OPENED_BY.get(node.name, "") + _HEADINGS.get(node.name, "")
        # Comments and declarations are subclasses of NavigableString, and no text.
        elif isinstance(node, str) and type(node) in (str, NavigableString):
            yield node if preformatted else re.sub(r"\s+", " ", node)


def _tidy(text: str) -> str:
    text = re.sub(r"[^\S\n]+$|^ (?=\S)", "", text, flags=re.MULTILINE)
    # The mark of a heading or an item whose text stands in a block of its own.
    text = re.sub(r"^(#{1,6}|-)\n+(?=\S)", r"\1 ", text, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text).strip()
