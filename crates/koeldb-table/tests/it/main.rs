//! Integration tests of tables, through the crate's public API.

#[cfg(test)]
mod any_settings;
#[cfg(test)]
mod cuckoo;
#[cfg(test)]
mod cuckoo_built;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod judge;
#[cfg(test)]
mod paged;
#[cfg(test)]
mod plain;
#[cfg(test)]
mod reading;
#[cfg(test)]
mod scan_ahead;
#[cfg(test)]
mod span_checksums;
#[cfg(test)]
mod sst_dump;
