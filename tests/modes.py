"""The four modes, as the tests import them: they are part of the public test kit."""

from scallion.testing import MODES, Drive, Driver, Mode, delivered
from scallion.testing.modes import Outcome, Result

__all__ = ["MODES", "Drive", "Driver", "Mode", "Outcome", "Result", "delivered"]
