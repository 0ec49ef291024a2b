/* KoelDB for C: the functions of rocksdb/c.h, and the release of the library. */
#pragma once

#include "rocksdb/c.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The release of KoelDB, such as "0.1.0". RocksDB's library has no such function. */
const char* koeldb_version(void);

#ifdef __cplusplus
}
#endif
