"""A fresh provider for every test, which fails a test that asks it for more, or for less, than its script."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from .server import FakeProvider

collect_ignore_glob = [] if find_spec("langchain_openai") and find_spec("langchain_anthropic") else ["test_*.py"]


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with FakeProvider() as provider:
        yield provider
    assert not provider.unexpected, "the model was asked more often than the script says"
    assert provider.left == 0, "the model was asked less often than the script says"
