"""The notebook of the onion: each filter in it does what the text says."""

from tests.notebooks.conftest import Kernel


def test_every_layer_does_what_the_text_says(kernel: Kernel) -> None:
    shown = kernel("02_filters_and_the_onion")
    assert "called with {'start': 'Ghent', 'end': 'Liège'}\nit said     Ghent to Liège: 120 km" in shown["one"]
    passed = ["turn >", "chat >", "chat <", "tool >", "tool <", "chat >", "chat <", "turn <"]
    assert [line.strip().removesuffix(" steps") for line in shown["chains"].splitlines()[:8]] == passed
    assert "tool: outer > audit > inner > tool" in shown["order"]
    assert shown["change"] == "'It is Ghent to Liège: 75 miles.'"
    assert shown["short"] == "'It is the atlas is closed today.'"
    assert "once more, as the failure is transient" in shown["again"]
    assert shown["again"].endswith("'It is Ghent to Liège: 120 km.'")
    assert shown["turn"] == "120 km. | attempts: 2\n['How far is Liège?', '120 km.']"
    assert shown["state"] == "{'count': {'asked': 2}}"
    assert shown["pause"] == "'Look up places that far away?'"
    assert shown["resume"] == "a person said approve\n'It is Ghent to Liège: 120 km.'"
    assert "[removed]" in shown["stream"]
    assert "sword" not in shown["stream"]
    assert shown["test"] == "Hello.\n{'count': {'asked': 1}}"
    assert shown["catalogue"].splitlines()[1] == "  Filter('audit': around_tool)"
