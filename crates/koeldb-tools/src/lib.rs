//! db_bench, ldb and sst_dump for KoelDB.
