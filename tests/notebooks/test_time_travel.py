"""The notebook of time travel: back, beside, edited, and run again by other agents."""

from tests.notebooks.conftest import Kernel


def test_one_conversation_in_many_ways(kernel: Kernel) -> None:
    shown = kernel("04_time_travel")
    assert "Book it.     -> I have seat 61 in the 10:04.             ['book'] ['bob']" in shown["history"]
    assert len(shown["steps"].splitlines()) == 13
    assert shown["compare-steps"].splitlines()[-2:] == [
        "+ tool find_train: the 10:04 to Bruges, 23 EUR",
        "+ assistant: I have the 10:04 to Bruges, 23 EUR.",
    ]
    assert shown["back"].splitlines()[1] == "['I have seat 61 in the 10:04.']"
    assert shown["beside"] == "I have the 10:04 to Ghent, 23 EUR.\n(4, 3)"
    assert shown["edit"] == "I have the 10:04 to Antwerp, 23 EUR.\n['Hello', 'To Antwerp.']"
    assert "| assistant: O Antwerp, where the river bends" in shown["rerun"]
    assert shown["filters"] == "True\n{'forgetful': {'cut': (None, 4)}}"
    heads = [part.strip() for part in shown["several"].splitlines()[0].split("|")]
    assert heads == ["", "trip (original)", "poet", "forgetful", "offline"]
    assert "failed: ModelError" in shown["several"]
    assert "'offline': None" in shown["several-answers"]
    assert shown["pause"] == "paused | [{'train': 'the 10:04'}]\n'I have seat 61 in the 10:04.'"
    assert shown["inside"].splitlines()[-1] == "+ assistant: I have the 14:51 to Antwerp, 9 EUR."
    assert shown["end"] == "['trip']"
