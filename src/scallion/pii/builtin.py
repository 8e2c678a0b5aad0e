"""The types that are found without a detector of one's own."""

from __future__ import annotations

from collections.abc import Callable

from scallion.errors import ConfigurationError
from scallion.pii.cards import CREDIT_CARD
from scallion.pii.detector import Detector
from scallion.pii.emails import EMAIL
from scallion.pii.iban import IBAN
from scallion.pii.ip import IP
from scallion.pii.keys import API_KEY
from scallion.pii.mac import MAC_ADDRESS
from scallion.pii.phone import phone
from scallion.pii.urls import URL

BUILTIN: dict[str, Detector | Callable[[Callable[[str], ConfigurationError]], Detector]] = {
    "email": EMAIL,
    "credit_card": CREDIT_CARD,
    "ip": IP,
    "mac_address": MAC_ADDRESS,
    "url": URL,
    "api_key": API_KEY,
    "iban": IBAN,
    "phone": phone,
}
"""By name; what needs an extra is made when it is used."""
