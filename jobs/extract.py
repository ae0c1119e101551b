"""What `ray job submit … -- python jobs/extract.py …` runs: `kgscale extract` with the same arguments."""

import sys

from kgscale.cli import main

if __name__ == "__main__":
    main(["extract", *sys.argv[1:]])
