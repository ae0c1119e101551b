"""What `ray job submit … -- python jobs/finetune.py …` runs: `kgscale finetune` with the same arguments."""

import sys

from kgscale.cli import main

if __name__ == "__main__":
    main(["finetune", *sys.argv[1:]])
