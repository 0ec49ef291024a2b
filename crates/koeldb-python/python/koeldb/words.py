"""Keys and values as words of a command line, in both directions."""

from __future__ import annotations

import shlex


def parse(word: str) -> bytes:
    """Reads a key or value: text with the escapes of Python, or hexadecimal after 0x."""
    if word[:2] in ("0x", "0X"):
        try:
            return bytes.fromhex(word[2:])
        except ValueError:
            raise ValueError(
                f"{word}: 0x must be followed by an even number of hexadecimal digits; "
                "text that begins with it is written \\x30x..."
            ) from None
    data = word.encode("utf-8", "surrogateescape")
    if "\\" not in word:
        return data
    try:
        return data.decode("unicode_escape").encode("latin-1")
    except ValueError:
        raise ValueError(
            f"{word}: not an escape of a byte; a byte is written \\x and two hexadecimal digits, "
            "a backslash \\\\"
        ) from None


def show(data: bytes) -> str:
    """Writes a key or value as text, with escapes where it is not printable."""
    try:
        shown = data.decode()
        is_plain = shown.isprintable() and "\\" not in shown
    except UnicodeDecodeError:
        is_plain = False
    if not is_plain:
        shown = "".join(
            chr(byte) if 32 <= byte < 127 and byte != 92 else f"\\x{byte:02x}" for byte in data
        )
    # `parse` reads 0x as the start of hexadecimal digits.
    return "\\x30" + shown[1:] if shown[:2] in ("0x", "0X") else shown


def show_word(data: bytes) -> str:
    """Writes a key as a word of a command."""
    word = show(data).replace('"', "\\x22").replace("'", "\\x27")
    return f'"{word}"' if not word or " " in word else word


def split(line: str) -> list[str]:
    """Divides a line into words, which may be quoted; leaves backslashes to `parse`."""
    words = shlex.shlex(line, posix=True)
    words.whitespace_split, words.commenters, words.escape = True, "", ""
    try:
        return list(words)
    except ValueError:
        raise ValueError(f"{line}: a quote is not closed") from None
