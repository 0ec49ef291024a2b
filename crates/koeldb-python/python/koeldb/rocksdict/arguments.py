"""Checks of the arguments of setters."""

from __future__ import annotations

import operator
from typing import TypeVar

_V = TypeVar("_V", int, float, str, bool)


def checked(name: str, kind: type[_V], value: _V) -> _V:
    """Returns the argument of an option's setter as a value of its type, or fails."""
    if kind is int and hasattr(value, "__index__"):
        return kind(operator.index(value))
    if kind is float and hasattr(value, "__float__"):
        return kind(value)
    if isinstance(value, kind):
        return value
    raise TypeError(f"{name} is of the type {kind.__name__}, not {type(value).__name__}")
