"""The notebook of moving an app: after each step it works."""

from tests.notebooks.conftest import Kernel


def test_each_step_works(kernel: Kernel) -> None:
    shown = kernel("06_from_langgraph")
    assert "'args': {'order_id': 1042, 'euros': 189.0}" in shown["app"]
    assert shown["app-resume"] == "'Order 1042: 189.00 EUR went back.'"
    assert shown["saver"] == "[('t-1', 'paused')]"
    assert shown["inbox"].endswith("'Order 1043: 189.00 EUR went back.'")
    assert shown["filter"] == "'I cannot help with that.'"
    assert "tool: HumanInTheLoopMiddleware > tool" in shown["agent"]
    assert shown["agent-run"] == "'You have written 3 message(s).'", "the thread of the old app goes on"
    assert shown["results"] == "'Order 1044: 189.00 EUR went back.'"
    assert shown["gates"].startswith("refused: 'mallory' is not among those who may decide")
    assert shown["gates"].endswith("'Order 1045: 189.00 EUR went back.'")
    assert shown["session"].endswith("[1042, 1043, 1044, 1045]")
    assert "('t-2', 'refund_order', ('desk'" in shown["node"]
    assert shown["node-resume"].endswith("'Welcome to the desk.']")
