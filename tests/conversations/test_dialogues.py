"""Twenty recorded dialogues as threads, stopped and resumed in a new process after every message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from .dialogues import Dialogue, dialogues, plain
from .nursery import Nursery, nursery

pytestmark = [pytest.mark.shared, pytest.mark.slow]


@pytest.fixture(scope="module")
def processes() -> Iterator[Nursery]:
    with nursery() as processes:
        yield processes


@pytest.mark.parametrize("dialogue", dialogues(20), ids=lambda dialogue: dialogue.name)
def test_a_dialogue_survives_a_new_process_after_every_message(
    processes: Nursery, dialogue: Dialogue, tmp_path: Path
) -> None:
    stops = 0
    for message in dialogue.users:
        history = processes.step(dialogue, tmp_path, message)
        while history is None:
            stops += 1
            history = processes.step(dialogue, tmp_path, None)

    assert history == plain(dialogue.messages)
    assert stops == 2 * len(dialogue.results)
    asked_and_ran = (tmp_path / "log.txt").read_text().splitlines()
    once = [f"model {place}" for place in range(len(dialogue.answers))] + [f"tool {key}" for key in dialogue.results]
    assert Counter(asked_and_ran) == Counter(once)
