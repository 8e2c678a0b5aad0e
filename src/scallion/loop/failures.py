"""Exceptions of a batch, kept for the node that raises them when the batch is done."""

from __future__ import annotations

import uuid
from collections import OrderedDict

_remembered: OrderedDict[str, BaseException] = OrderedDict()


def remember(error: BaseException) -> str:
    """Keep an exception for the node that raises it when the batch is done, and return its key; 100 are kept."""
    key = uuid.uuid4().hex
    _remembered[key] = error
    if len(_remembered) > 100:
        _remembered.popitem(last=False)
    return key


def recall(key: str) -> BaseException | None:
    """The exception of that key, once; None in another process."""
    return _remembered.pop(key, None)
