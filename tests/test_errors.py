"""The tree of errors, and what each of them tells."""

from __future__ import annotations

import inspect
import pickle
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from scallion import errors, reject
from scallion.values import Approval

ALL = [one for _, one in inspect.getmembers(errors, inspect.isclass) if one.__module__ == errors.__name__]

MADE: dict[str, Any] = {
    "FilterError": errors.FilterError("audit", "around_chat", "KeyError"),
    "ModelError": errors.ModelError("transient", "the model failed", 2.5),
    "LimitExceeded": errors.LimitExceeded("model_calls", 50, 50),
    "ValidationFailed": errors.ValidationFailed(["a", "b"]),
    "Blocked": errors.Blocked("pii", {"card": 2}),
    "ThreadError": errors.ThreadError("t", "no"),
    "ThreadBusy": errors.ThreadBusy("t", "host-1"),
    "ThreadPaused": errors.ThreadPaused("t", [Approval("a", "t", "question")]),
    "NotPaused": errors.NotPaused("t"),
    "LeaseLost": errors.LeaseLost("t"),
    "UnknownApproval": errors.UnknownApproval("a"),
    "InvalidDecision": errors.InvalidDecision("not allowed", Approval("a", "t", "question")),
    "AlreadyDecided": errors.AlreadyDecided("a", by="ana", at=datetime(2026, 1, 1, tzinfo=UTC), decision=reject("x")),
    "ApprovalExpired": errors.ApprovalExpired("a"),
    "PauseChanged": errors.PauseChanged("a", "the gate"),
    "NotSerializable": errors.NotSerializable("state", "socket"),
}


def test_the_tree_of_the_docstring_is_the_tree_of_the_classes() -> None:
    """Depth by depth."""
    drawn = []
    for line in (errors.__doc__ or "").splitlines():
        if found := re.match(r"^((?:    )+)[│ ]*(?:[├└]── )?(\w+)", line):
            drawn.append(found[2])
    assert sorted(drawn) == sorted(one.__name__ for one in ALL)
    assert all(issubclass(one, errors.ScallionError) for one in ALL)
    assert issubclass(errors.PauseChanged, errors.DecisionError)
    assert issubclass(errors.ThreadPaused, errors.ThreadError)
    assert issubclass(errors.NotSerializable, errors.StorageError)


@pytest.mark.parametrize("name", MADE)
def test_an_error_can_be_pickled(name: str) -> None:
    """Process pools and task queues carry exceptions that way."""
    error = MADE[name]
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert vars(copy).keys() == vars(error).keys()


@pytest.mark.parametrize("name", MADE)
def test_an_error_says_something(name: str) -> None:
    """One line, without the repr of an object."""
    text = str(MADE[name])
    assert text.strip()
    assert "\n" not in text
    assert "object at 0x" not in text


def test_already_decided_tells_who() -> None:
    assert "reject by ana" in str(MADE["AlreadyDecided"])
    assert str(errors.AlreadyDecided("a")) == "approval 'a' is already decided"


def test_a_failed_validation_tells_where_and_not_what() -> None:
    """Of errors that begin with a pointer; keys that people make up, and reasons of a check, are not told."""
    failed = errors.ValidationFailed(
        [
            "/id: 'x-ray' is not of type 'integer'",
            "/items/12/price: ...",
            "/by/ana@example.com/n: ...",
            "#: ...",
            "/id: b",
        ]
    )
    assert str(failed) == "the answer failed validation with 5 errors at /id, /items/12/price, /by/*/n, #"
    assert str(errors.ValidationFailed(["it names Ana: a person"])) == "the answer failed validation with 1 error"
    many = errors.ValidationFailed([f"/{letter}: wrong" for letter in "abcdefg"])
    assert str(many).endswith("7 errors at /a, /b, /c, /d, /e and 2 more")
    assert str(errors.ValidationFailed(["/15551234567: wrong"])).endswith("at /*")


def test_a_blocked_turn_tells_no_text() -> None:
    error = errors.Blocked("pii", {"card": 2})
    assert error.findings == {"card": 2}
    assert "card" not in str(error)
