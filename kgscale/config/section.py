"""What every section of the config is made of."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class UnknownNameError(ValueError):
    """A name in the config that refers to nothing; `location` is the path of the field that holds it."""

    def __init__(self, location: tuple[str, ...], message: str) -> None:
        super().__init__(message)
        self.location = location


Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[int, Field(ge=1)]
NonNegative = Annotated[int, Field(ge=0)]


class Section(BaseModel):
    """A part of the config: it knows its fields, and no others."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, populate_by_name=True)
