"""Turning what is shown into one HTML file that opens offline: nothing in it asks for anything outside it."""

import base64
import hashlib
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

import kgscale
from kgscale.report.texts import Texts
from kgscale.talk import visible


def render(template: str, t: Texts, title: str, *, script: str | None = None, **values: Any) -> str:
    """Fill a template of this package; `script` names the one file of JavaScript that the page may run."""
    style, code = _resource("page.css"), _resource(script) if script else None
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(_resource),
    )
    environment.filters["coded"] = _coded
    return environment.get_template(template).render(
        t=t,
        title=title,
        version=kgscale.__version__,
        style=Markup(style),  # noqa: S704 (a file of this package)
        script=Markup(code) if code else None,  # noqa: S704
        policy=_policy(style, code),
        **values,
    )


def _coded(text: str) -> Markup:
    """Text in which what stands between backticks is code."""
    # A percent sign must not stand alone at the start of a line.
    parts = visible(text).replace(" %", "\u00a0%").split("`")
    return Markup("").join(Markup("<code>{}</code>").format(it) if at % 2 else it for at, it in enumerate(parts))


def _policy(style: str, script: str | None) -> str:
    """What the page may do: run its own script and style, known by their hashes, and nothing else."""
    rules = (
        "default-src 'none'",
        f"style-src '{_digest(style)}'",
        *([f"script-src '{_digest(script)}'"] if script else []),
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
    )
    return "; ".join(rules)


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _resource(name: str) -> str:
    return files("kgscale.report").joinpath(name).read_text(encoding="utf-8")
