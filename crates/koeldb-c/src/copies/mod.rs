//! Copies and files: checkpoints, backups, exports, tables from outside, live files, logs.
