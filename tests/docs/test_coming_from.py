"""The page for newcomers names all that the others have, and every name of ours on it is there."""

import re
from pathlib import Path

import pytest

import scallion
import scallion.tools
from scallion import filters

PAGE = (Path(__file__).parents[2] / "docs" / "coming-from.md").read_text(encoding="utf-8")

OTHERS = {
    "beamai": """
        beamai:kernel beamai:filter around_chat around_tool around_turn Next load_history token_transform FCtx
        filter_state compose system_prompts logging_filter safeguard_filter timeout_filter approval_filter
        validation_turn_filter schema_validation_turn_filter token_redact_filter hold_release_filter
        beamai_tool_search beamai_memory_filter beamai_context on_tool_call env_retry pause_store
        middleware_call_limit tool_retry model_retry model_fallback human_approval sensitive presets
    """,
    "BeamWeaver": """
        before_agent after_agent before_model after_model wrap_model_call wrap_tool_call jump_to can_jump_to Overwrite
        PII strategy detector apply_to_input apply_to_output apply_to_tool_results HumanInTheLoop interrupt_on
        allowed_decisions interrupt_mode resume_review decisions checkpointer ModerationMiddleware check_input
        exit_behavior ModelCallLimit ToolCallLimit ModelRetry ToolRetry ModelFallback StructuredOutputRetry
        ToolSelection Summarization ContextEditing TodoList ToolEmulator stream_events
    """,
    "Arc": """
        filterInput filterOutput input inputMessage message output outputMessage replaces regex MyFilter AgentFilter
        breakWith runAsync llm getOrNull retry onFail limit prompt FilterExecutedEvent
    """,
}
"""What their documentation names."""


def section(title: str) -> str:
    """The part of the page below a heading."""
    return PAGE.split(f"\n## {title}\n", 1)[1].split("\n## ", 1)[0]


def test_every_name_of_ours_is_there() -> None:
    """`filters.name`, `scallion.tools.name`, and what the examples import."""
    named = set(re.findall(r"filters\.(\w+)", PAGE))
    assert len(named) > 35
    assert not {name for name in named if not hasattr(filters, name)}
    assert all(hasattr(scallion.tools, name) for name in re.findall(r"scallion\.tools\.(\w+)", PAGE))
    assert "not yet" not in PAGE


@pytest.mark.parametrize("system", OTHERS)
def test_every_name_of_theirs_is_told(system: str) -> None:
    """In a table, or in a line above it."""
    told = "\n".join(line for line in section(system).splitlines() if line.startswith("|"))
    assert not [name for name in OTHERS[system].split() if name not in told]


def test_every_middleware_of_langchain_is_told() -> None:
    """As many as the version has that the tests run with."""
    middleware = pytest.importorskip("langchain.agents.middleware")
    told = section("LangChain's middleware")
    hooks = ("before_agent", "after_agent", "before_model", "after_model", "wrap_model_call", "wrap_tool_call")
    theirs = [name for name in middleware.__all__ if name.endswith("Middleware")]
    assert len(theirs) > 15
    assert not [name for name in (*theirs, *hooks, "dynamic_prompt", "hook_config") if name not in told]
