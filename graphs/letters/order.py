"""The form of an order."""

from datetime import date

from pydantic import BaseModel, Field


class Line(BaseModel):
    """A product, in the singular and in small letters, and how many of it."""

    product: str
    quantity: int = Field(ge=1)


class Order(BaseModel):
    """What a customer ordered in a letter."""

    customer: str
    lines: list[Line] = Field(min_length=1)
    deliver_by: date | None
