"""The first notebook, executed in two real kernels: what one paused, the other resumes from the same database."""

from tests.notebooks.conftest import Kernel

NAME = "01_pause_and_resume"


def test_two_kernels(kernel: Kernel) -> None:
    """Sync and async calls in both; nothing but the database goes from one to the other."""
    first = kernel(NAME, "first")
    assert "{'order_id': 1042, 'amount': 189.0}" in first["pause"]
    assert "refund_order" in first["apause"]
    second = kernel(NAME, "second")
    assert second["pending"] == "['evening', 'morning']"
    assert second["resume"] == "'Done. Order 1042: 189.00 EUR are on their way back.'"
    assert "Order 1042: 20.00 EUR are on their way back." in second["aresume"]
    assert "The agent wants to call refund_order." in second["panel"]
    assert second["result"] == ""  # nobody has clicked
    assert second["sessions"].count("'idle'") == 2
    assert second["sessions"].count("'paused'") == 1
