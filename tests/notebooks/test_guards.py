"""The notebook of the guards, executed in a real kernel: what leaks without them, and does not with them."""

from tests.notebooks.conftest import Kernel


def test_the_same_conversation_without_and_with_guards(kernel: Kernel) -> None:
    """What was said is in the stream and in the file, and then in neither."""
    shown = kernel("07_guards")
    assert shown["without"].endswith("['ana@example.com', '4111 1111 1111 1111', 'office@example.org']")
    for cell in ("with", "tokens"):
        assert shown[cell].endswith("[]")
        assert "example.org" not in shown[cell]
    assert "**** **** **** 1111" in shown["with"]
    assert "('ana@example.com', 'I am ana@example.com, my card is [REDACTED_CREDIT_CARD]')" in shown["tokens"]
    assert "guard 'pii' stopped the turn {'credit_card': 1}" in shown["block"]
    assert shown["block"].endswith("[('t-1', 'I am [REDACTED_EMAIL], hello')]")
