"""A conversation as a thing to hold: `agent.session(thread)`."""

from scallion.session.comparing import Difference
from scallion.session.runs import Rerun, Runs
from scallion.session.session import Session
from scallion.session.state import State
from scallion.session.turns import Step, ToolUse, Turn

__all__ = ["Difference", "Rerun", "Runs", "Session", "State", "Step", "ToolUse", "Turn"]
