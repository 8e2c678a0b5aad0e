"""Public test kit: models that follow a script or a cassette, and what tests of agents and filters need."""

from scallion.testing.cassette import CassetteMiss
from scallion.testing.clock import Clock
from scallion.testing.conformance import FilterConformance, check_filter
from scallion.testing.crash import Crash, crash_at
from scallion.testing.executions import Executions, assert_called_once, executions
from scallion.testing.fuzz import check_chunking
from scallion.testing.model import ScriptedModel, ScriptExhausted, ScriptMismatch
from scallion.testing.modes import MODES, Drive, Driver, Mode, approve_with, delivered
from scallion.testing.recording import Recorded, Recording
from scallion.testing.replay import ReplayModel
from scallion.testing.replies import BreaksOff, Chunks, asks, call, malformed

__all__ = [
    "MODES",
    "BreaksOff",
    "CassetteMiss",
    "Chunks",
    "Clock",
    "Crash",
    "Drive",
    "Driver",
    "Executions",
    "FilterConformance",
    "Mode",
    "Recorded",
    "Recording",
    "ReplayModel",
    "ScriptExhausted",
    "ScriptMismatch",
    "ScriptedModel",
    "approve_with",
    "asks",
    "assert_called_once",
    "call",
    "check_chunking",
    "check_filter",
    "crash_at",
    "delivered",
    "executions",
    "malformed",
]
