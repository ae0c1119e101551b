"""The errors that kgscale raises on purpose, each with the exit code that the command line gives it."""


class KgscaleError(Exception):
    """Something stopped the work; `message` says what, `where` the place, `hint` what to do.

    The command line prints the three parts without a traceback and exits with `exit_code`.
    """

    exit_code = 1

    def __init__(self, message: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        hint = f"\n  {self.hint}" if self.hint else ""
        return f"{place}{self.message}{hint}"

    def __reduce__(self) -> tuple[object, ...]:
        """Survive the trip between processes: keyword arguments are not in `args`."""
        return (_rebuild, (type(self), self.message, self.where, self.hint))


class UserError(KgscaleError):
    """The user asked for something that cannot be: a wrong key, a missing file, a damaged input."""

    exit_code = 2


class WorkError(KgscaleError):
    """The request was right, but the work could not be done: an engine does not start, a disk is full."""

    exit_code = 1


def _rebuild(kind: type[KgscaleError], message: str, where: str | None, hint: str | None) -> KgscaleError:
    return kind(message, where=where, hint=hint)
