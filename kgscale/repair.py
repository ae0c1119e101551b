"""Making a damaged run whole again: damaged files are set aside, and the next extraction does their rows anew."""

from kgscale.errors import UserError
from kgscale.lock import driver_lock
from kgscale.runs import GOLD_FILE, Run
from kgscale.shards import EXTRACTIONS, RETRIES
from kgscale.verify import SCORES, Verification

ASIDE = "damaged"


def set_aside(run: Run, found: Verification, command: str) -> list[str]:
    """Move the files that a verification names to `damaged/`; returns their names.

    Extracting makes rows and gold anew, scoring its tables. Files whose rows are in others too are deleted. Raises
    `UserError` if a driver works on the run, or if what is damaged cannot be made anew: the corpus, or gold that was
    written into the run and is named in no config.
    """
    files = sorted({problem.where for problem in found.problems if problem.damaged})
    again = (f"{EXTRACTIONS}/", f"{RETRIES}/", f"{SCORES}/", *([GOLD_FILE] if run.config.gold else []))
    sources = [name for name in files if not name.startswith(again)]
    if sources:
        raise UserError(
            f"damaged and not to be made anew from the rest: {', '.join(sources)}",
            where=run.store.uri,
            hint="put the file back from a copy, or start a fresh run with --new-run",
        )
    with driver_lock(run.store, command):
        for name in files:
            run.store.move(name, f"{ASIDE}/{name.removeprefix(f'{EXTRACTIONS}/')}")
        for method in run.methods:
            run.drop_doubles(method)
    return files
