"""What is done to text before it reaches a terminal."""

import pytest

from scallion.inspect.conversation import message_data, text_of
from scallion.inspect.escape import one_line, printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain äöü 漢字 🧅\n\tindented", "plain äöü 漢字 🧅\n\tindented"),
        ("\x1b[2J", "\\x1b[2J"),
        ("over\rwritten", "over\\x0dwritten"),
        ("\x9b1m\x7f\x00", "\\x9b1m\\x7f\\x00"),
        ("abc\u202efdp", "abc\\u202efdp"),
        ("\ud800", "\\ud800"),
    ],
)
def test_printable(text: str, shown: str) -> None:
    """Active characters are written out, all others stay."""
    assert printable(text) == shown
    assert "".join(map(printable, text)) == shown  # streamed in pieces: the same


def test_one_line() -> None:
    """No text makes a line that it was not given."""
    assert one_line("a\n  b\u2028c\x1b") == "a b c\\x1b"


def test_contents() -> None:
    """Texts of blocks are read, other blocks are named."""
    blocks = ["a", {"type": "text", "text": "b"}, {"type": "image"}, {"type": "tool_use", "name": "x"}, 3]
    assert text_of(blocks) == "ab[image]3"
    assert text_of(None) == ""


def test_messages_as_data() -> None:
    """Mappings are read as messages are."""
    data = message_data({"role": "user", "content": "hi"})
    assert data["role"] == "user"
    assert data["tool_calls"] == []
