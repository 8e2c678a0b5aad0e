"""A fresh provider for every test, which fails a test that asks it for more than its script."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.importorskip("langchain_openai")
pytest.importorskip("langchain_anthropic")

from .server import FakeProvider


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with FakeProvider() as provider:
        yield provider
    assert not provider.unexpected, "the model was asked more often than the script says"
    assert provider.left == 0, "the model was asked less often than the script says"
