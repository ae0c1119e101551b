"""The commands, in the order in which help lists them; what they do is in the rooms that they import when they run."""

import signal
import sys

import typer

from kgscale.cli import judging, work
from kgscale.cli.common import say
from kgscale.cli.files import convert, models
from kgscale.cli.finetune import training
from kgscale.cli.gold import gold as gold_sets
from kgscale.errors import KgscaleError

INTERRUPTED = "kgscale: interrupted; what was committed stays, run the same command to go on"
app = typer.Typer(
    help="May a cheaper way of extracting a knowledge graph replace the one you trust? Decided on the whole corpus.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for it in (
    work.run,
    work.extract,
    work.plan,
    work.status,
    work.verify,
    judging.score,
    judging.compare,
    judging.gate,
    judging.history,
    judging.report,
    convert,
):
    app.command()(it)
app.add_typer(models, name="models")
app.add_typer(gold_sets, name="gold")
app.add_typer(training, name="finetune")


def main(arguments: list[str] | None = None) -> None:
    """Run a command; the exit codes are 0 done, 1 failed, 2 the user's mistake, 3 not passed, 130 interrupted."""
    # Who stops a job (`ray job stop`, a batch system) does not press Ctrl-C, and means the same.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        app(arguments)
    except KgscaleError as error:
        say(f"kgscale: {error}")
        sys.exit(error.exit_code)
    except InterruptedError:
        say(INTERRUPTED)
        sys.exit(130)
    except SystemExit as end:
        # Typer makes this of a KeyboardInterrupt, and says nothing.
        if end.code == 130:
            say(INTERRUPTED)
        raise
