"""RocksDict's API over this engine, for programs that import `rocksdict`.

The directories are the same, in both directions: keys and values have the same bytes, and
`rocksdict-config.json` is read and kept. What this engine does not have raises
`NotImplementedError` or `koeldb.NotSupported`, with its name.

    from koeldb.rocksdict import Rdict

    with Rdict("birds.db") as birds:
        birds["koel"] = {"genus": "Eudynamys", "length": 0.45}
"""

from .batch import SstFileWriter, WriteBatch
from .calls import (
    AccessType,
    CompactOptions,
    IngestExternalFileOptions,
    ReadOptions,
    WriteOptions,
)
from .calls import (
    FlushOptions as FlushOptions,
)
from .choices import (
    BlockBasedIndexType,
    BottommostLevelCompaction,
    ChecksumType,
    DataBlockIndexType,
    DBCompactionStyle,
    DBCompressionType,
    DBRecoveryMode,
    KeyEncodingType,
    MemtableFactory,
    SliceTransform,
    UniversalCompactionStopStyle,
)
from .database import Checkpoint, ColumnFamily, DbClosedError, Rdict, Snapshot
from .iteration import (
    RdictColumns as RdictColumns,
)
from .iteration import (
    RdictEntities as RdictEntities,
)
from .iteration import (
    RdictItems as RdictItems,
)
from .iteration import (
    RdictIter,
)
from .iteration import (
    RdictKeys as RdictKeys,
)
from .iteration import (
    RdictValues as RdictValues,
)
from .options import Options
from .resources import Cache, DBPath, Env, WriteBufferManager
from .tables import (
    BlockBasedOptions,
    CuckooTableOptions,
    FifoCompactOptions,
    PlainTableFactoryOptions,
    UniversalCompactOptions,
)

__all__ = [
    "AccessType",
    "BlockBasedIndexType",
    "BlockBasedOptions",
    "BottommostLevelCompaction",
    "Cache",
    "Checkpoint",
    "ChecksumType",
    "ColumnFamily",
    "CompactOptions",
    "CuckooTableOptions",
    "DBCompactionStyle",
    "DBCompressionType",
    "DBPath",
    "DBRecoveryMode",
    "DataBlockIndexType",
    "DbClosedError",
    "Env",
    "FifoCompactOptions",
    "IngestExternalFileOptions",
    "KeyEncodingType",
    "MemtableFactory",
    "Options",
    "PlainTableFactoryOptions",
    "Rdict",
    "RdictIter",
    "ReadOptions",
    "SliceTransform",
    "Snapshot",
    "SstFileWriter",
    "UniversalCompactOptions",
    "UniversalCompactionStopStyle",
    "WriteBatch",
    "WriteBufferManager",
    "WriteOptions",
]
