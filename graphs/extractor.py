"""Reads the letter of a customer, and gives the order in it as data (`Completed.parsed`): what does not fit goes back.

`SCALLION_MODEL` (`provider:name`) chooses the model; without it an offline scripted model plays the part.
`SCALLION_DB` is where conversations are kept.
"""

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # `letters` lies beside this file, from wherever it is loaded

from letters.offline import offline_model
from letters.order import Order
from scallion import Agent, filters

agent = Agent(
    os.environ.get("SCALLION_MODEL") or offline_model(),
    name="extractor",
    filters=[filters.validate_schema(Order)],
    system_prompt=(
        "You read letters to a small kitchen shop. Answer with the order in the letter as JSON: the customer, "
        "the lines with product and quantity, and the date to deliver by, or null."
    ),
    checkpointer=os.environ.get("SCALLION_DB", "sqlite:///scallion.db"),
)
graph = agent.graph
