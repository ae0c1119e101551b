"""What reading finds out beside the text: counted in full, with the first few kept to be shown."""

from collections import Counter
from dataclasses import dataclass

from kgscale.errors import UserError

SHOWN = 20
"""How many are kept with their place; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something to tell the user; `where` is a file, `file:line` or `file, record N`."""

    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


class Notices:
    """Harmless things, by kind: `counts` has the number of each, `first` the first `SHOWN` of each kind, in order."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.first: list[Notice] = []

    def add(self, where: str, kind: str, detail: str = "") -> None:
        """Note one thing; `kind` is one of a few fixed wordings, `detail` says what is special about this case."""
        self.counts[kind] += 1
        if self.counts[kind] <= SHOWN:
            self.first.append(_notice(where, f"{kind}: {detail}" if detail else kind))


class Faults:
    """What would lose or confuse data if it were passed over; collected, so that all of it can be mended at once."""

    def __init__(self) -> None:
        self.total = 0
        self.first: list[Notice] = []

    def add(self, where: str, message: str) -> None:
        """Note one fault."""
        self.total += 1
        if self.total <= SHOWN:
            self.first.append(_notice(where, message))

    def add_error(self, error: UserError) -> None:
        """Note an error as a fault, to go on with what comes after it."""
        self.add(error.where or "", error.message)

    def raise_if_any(self, summary: str, hint: str) -> None:
        """Raise a `UserError` that lists the first `SHOWN` faults and says how many there are in all."""
        if not self.total:
            return
        lines = [f"{summary} ({self.total:,} {'problem' if self.total == 1 else 'problems'})"]
        lines.extend(f"  {fault}" for fault in self.first)
        if self.total > len(self.first):
            lines.append(f"  … and {self.total - len(self.first):,} more")
        raise UserError("\n".join(lines), hint=hint)


def _notice(where: str, message: str) -> Notice:
    # Names of files, and strings in JSON, may hold halves of surrogate pairs, which no terminal can print.
    return Notice(*(part.encode(errors="backslashreplace").decode() for part in (where, message)))
