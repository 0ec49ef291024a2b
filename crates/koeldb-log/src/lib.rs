//! KoelDB's record logs: the bytes and the files of the write-ahead log.
