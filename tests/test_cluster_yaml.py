"""cluster.yaml is what Ray's own cluster launcher accepts."""

from pathlib import Path

import pytest
import yaml

CLUSTER = Path(__file__).parent.parent / "cluster.yaml"


def checked(config: dict[str, object]) -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    validate_config(prepare_config(config))


def test_ray_accepts_it() -> None:
    checked(yaml.safe_load(CLUSTER.read_text()))


def test_a_misspelt_key_would_be_noticed() -> None:
    config = yaml.safe_load(CLUSTER.read_text())
    config["max_wrokers"] = config.pop("max_workers")
    with pytest.raises(Exception, match="max_wrokers"):
        checked(config)


def test_each_gpu_node_has_cores_for_an_llm_and_its_gliner_workers() -> None:
    gpu = yaml.safe_load(CLUSTER.read_text())["available_node_types"]["gpu"]["resources"]
    assert gpu["CPU"] >= 4 * gpu["GPU"]
