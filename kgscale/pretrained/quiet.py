"""Keep transformers from talking while a model is assembled: kgscale says itself what it does."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """No warnings and no progress bars from transformers inside; as before afterwards.

    Standard error is set aside: the bar of the GGUF reader heeds no setting. Errors are raised as ever.
    """
    from transformers.utils import logging

    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with redirect_stderr(io.StringIO()):
            yield
    finally:
        logging.set_verbosity(level)
