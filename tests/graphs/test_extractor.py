"""The extractor as it is loaded by path: a letter in, an order out."""

import importlib.util
import json
from datetime import date
from pathlib import Path
from types import ModuleType

import pytest
from langchain_core.messages import AIMessage, HumanMessage

from letters import offline
from letters.order import Line, Order

ROOT = Path(__file__).parents[2]
LETTER = """Hello,
please send me two copper pans and 12 spoons by 24 December 2026.
Kind regards,
Mira Okafor"""


@pytest.fixture
def extractor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, with a database of the test's own."""
    monkeypatch.delenv("SCALLION_MODEL", raising=False)
    monkeypatch.setenv("SCALLION_DB", f"sqlite:///{tmp_path / 'scallion.db'}")
    spec = importlib.util.spec_from_file_location("extractor", ROOT / "graphs" / "extractor.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_order_in_a_letter(extractor: ModuleType) -> None:
    """The date of the first answer does not fit; the second one does, and the thread keeps that one."""
    result = extractor.agent.invoke(LETTER, thread="t")
    lines = [Line(product="copper pan", quantity=2), Line(product="spoon", quantity=12)]
    assert result.parsed == Order(customer="Mira Okafor", lines=lines, deliver_by=date(2026, 12, 24))
    assert result.attempts == 2
    kept = extractor.graph.get_state({"configurable": {"thread_id": "t"}}).values["messages"]
    assert [message.type for message in kept] == ["human", "ai"]


def test_a_second_letter_of_the_same_thread(extractor: ModuleType) -> None:
    """Without a date nothing has to be corrected."""
    extractor.agent.invoke(LETTER, thread="t")
    result = extractor.agent.invoke("I would like a dozen whisks, please.\nTeun de Wit", thread="t")
    assert (result.parsed.customer, result.parsed.deliver_by) == ("Teun de Wit", None)


def test_a_letter_without_an_order(extractor: ModuleType) -> None:
    """After the retries the answer is given as it is, without data."""
    result = extractor.agent.invoke("Thank you for the lovely pan!", thread="t")
    assert (result.parsed, result.answer, result.attempts) == (None, offline.NOTHING, 3)


def test_the_offline_model_corrects_itself() -> None:
    """Only when it is told to."""
    first = offline.answer([HumanMessage(LETTER)])
    told = [HumanMessage(LETTER), first, HumanMessage("Your answer is not valid: ...")]
    dates = [json.loads(one.text.strip("`json\n"))["deliver_by"] for one in (first, offline.answer(told))]
    assert dates == ["24 December 2026", "2026-12-24"]
    assert isinstance(offline.answer([]), AIMessage)
