"""What `ray job submit … -- python jobs/score.py …` runs: `kgscale score` with the same arguments."""

import sys

from kgscale.cli import main

if __name__ == "__main__":
    main(["score", *sys.argv[1:]])
