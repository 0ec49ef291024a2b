"""The file `rocksdict-config.json`: the mode of a directory, and prefix extractors."""

from __future__ import annotations

import json
import pathlib
from dataclasses import dataclass, field

from .choices import SliceTransform


def file(path: str) -> pathlib.Path:
    """The file of a directory."""
    return pathlib.Path(path, "rocksdict-config.json")


@dataclass
class Config:
    """What the file says. Without it a directory is in raw mode: another program wrote it."""

    raw_mode: bool = True
    prefix_extractors: dict[str, SliceTransform] = field(default_factory=dict)

    @staticmethod
    def load(path: str) -> Config:
        """Reads the file of a directory."""
        try:
            found = json.loads(file(path).read_bytes())
            extractors = found["prefix_extractors"].items()
            return Config(
                bool(found["raw_mode"]),
                {name: SliceTransform.from_config(own) for name, own in extractors},
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return Config()

    def save(self, path: str) -> None:
        """Writes the file of a directory, if it says something else."""
        extractors = {name: extractor.config for name, extractor in self.prefix_extractors.items()}
        contents = {"raw_mode": self.raw_mode, "prefix_extractors": extractors}
        text = json.dumps(contents, separators=(",", ":"))
        place = file(path)
        if not place.exists() or place.read_text() != text:
            place.write_text(text)
