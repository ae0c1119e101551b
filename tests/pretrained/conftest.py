import pytest

from kgscale.pretrained import catalogue, wheels
from tests.pretrained import toy


@pytest.fixture
def toy_model(tmp_path, monkeypatch):
    """The toy as the only default model; returns a function that replaces it by one with other settings."""
    wheel = toy.make_wheel(tmp_path)

    def settings(**arguments):
        monkeypatch.setattr(catalogue, "ENTRIES", (toy.toy(**arguments),))
        monkeypatch.setattr(wheels, "_commands", toy.copying(wheel))

    settings()
    return settings
