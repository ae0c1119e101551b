"""What holds for every test: no model hub, no telemetry, and no time limit on a property that a busy machine slows."""

import os

from hypothesis import HealthCheck, settings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

settings.register_profile("kgscale", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("kgscale")
