"""Keys and values of Python as bytes, and back: the first byte tells the type."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

#: What a key can be in the default mode; in raw mode it is `bytes`.
Key = str | int | float | bytes | bool

BYTES, STR, INT, FLOAT, BOOL, PICKLE = range(1, 7)

_FLOAT = struct.Struct(">Bd")
_PAYLOAD = struct.Struct(">d")
_FALSE, _TRUE = bytes((BOOL, 0)), bytes((BOOL, 1))


def _typed(value: object) -> bytes | None:
    """Returns the bytes of a value of a simple type, and `None` for others."""
    if isinstance(value, bytes):
        return b"\x01" + value
    if isinstance(value, str):
        return b"\x02" + value.encode()
    if isinstance(value, bool):
        return _TRUE if value else _FALSE
    if isinstance(value, int):
        # As few bytes as the number and its sign need.
        width = (value if value >= 0 else value + 1).bit_length() // 8 + 1
        return b"\x03" + value.to_bytes(width, "big", signed=True)
    if isinstance(value, float):
        return _FLOAT.pack(FLOAT, value)
    return None


def encode_key(key: object, raw_mode: bool) -> bytes:
    """Returns the bytes of a key."""
    if raw_mode:
        if isinstance(key, bytes):
            return key
        raise KeyError(f"a key is bytes in raw mode, not {type(key).__name__}")
    encoded = _typed(key)
    if encoded is None:
        raise TypeError(f"a key is a str, int, float, bool or bytes, not {type(key).__name__}")
    return encoded


def encode_value(value: object, raw_mode: bool, dumps: Callable[[Any], bytes]) -> bytes:
    """Returns the bytes of a value; `dumps` makes those of an object without a simple type."""
    if raw_mode:
        if isinstance(value, bytes):
            return value
        raise ValueError(f"a value is bytes in raw mode, not {type(value).__name__}")
    encoded = _typed(value)
    return b"\x06" + dumps(value) if encoded is None else encoded


def decode(data: bytes, raw_mode: bool, loads: Callable[[bytes], Any]) -> Any:
    """Returns the key or value of bytes."""
    if raw_mode:
        return data
    if not data:
        # The plain value of an entity without a default column.
        return ""
    kind = data[0]
    if kind == STR:
        return data[1:].decode()
    if kind == INT:
        return int.from_bytes(data[1:], "big", signed=True)
    if kind == BYTES:
        return data[1:]
    if kind == FLOAT:
        return _PAYLOAD.unpack(data[1:])[0]
    if kind == BOOL:
        return data[1] != 0
    if kind == PICKLE:
        return loads(data[1:])
    raise ValueError(f"the first byte of a value is {kind}, which is no type of RocksDict")


def after(key: bytes, raw_mode: bool) -> bytes:
    """Returns the key behind a key: with it as the end of a range, the range has the key."""
    if not raw_mode and key[:1] == b"\x03":
        return encode_key(int.from_bytes(key[1:], "big", signed=True) + 1, False)
    return key + b"\0"
