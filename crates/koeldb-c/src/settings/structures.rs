//! The structures of memtables and of plain tables, and collectors of deletions.

use std::ffi::c_char;

use koeldb::{
    CompactOnDeletion, MemtableFactory, PlainTableOptions, TablePropertiesCollector, VectorOptions,
};

use crate::settings::options::Options;

/// Keeps memtables in vectors.
pub(crate) fn use_vector(options: &mut Options) {
    let factory = MemtableFactory::Vector(VectorOptions::default());
    options.inner.set_memtable_factory(factory);
}

/// Keeps memtables in skip lists by prefix.
pub(crate) fn use_hash_skip_list(
    options: &mut Options,
    buckets: usize,
    height: i32,
    branching: i32,
) {
    let mut rep = koeldb::HashSkipListOptions::default();
    rep.set_bucket_count(buckets as u64);
    rep.set_skiplist_height(u32::try_from(height).unwrap_or_default());
    rep.set_branching_factor(u32::try_from(branching).unwrap_or_default());
    let factory = MemtableFactory::HashSkipList(rep);
    options.inner.set_memtable_factory(factory);
}

/// Keeps memtables in linked lists by prefix.
pub(crate) fn use_hash_link_list(options: &mut Options, buckets: usize) {
    let mut rep = koeldb::HashLinkListOptions::default();
    rep.set_bucket_count(buckets as u64);
    let factory = MemtableFactory::HashLinkList(rep);
    options.inner.set_memtable_factory(factory);
}

/// Writes plain tables.
#[expect(clippy::too_many_arguments, reason = "those of the C function")]
pub(crate) fn use_plain_tables(
    options: &mut Options,
    key_bytes: u32,
    bloom_bits: i32,
    hash_ratio: f64,
    index_sparseness: usize,
    huge_page_bytes: usize,
    encoding: c_char,
    full_scan: bool,
    store_index: bool,
) {
    let mut tables = PlainTableOptions::new();
    tables.set_user_key_len(key_bytes);
    tables.set_bloom_bits_per_key(u32::try_from(bloom_bits).unwrap_or_default());
    tables.set_hash_ratio(hash_ratio);
    tables.set_index_sparseness(index_sparseness as u64);
    tables.set_huge_page_tlb_size(huge_page_bytes as u64);
    tables.set_encoding_type(match encoding {
        1 => koeldb::EncodingType::Prefix,
        _ => koeldb::EncodingType::Plain,
    });
    tables.set_full_scan_mode(full_scan);
    tables.set_store_index_in_file(store_index);
    options.inner.set_plain_table_factory(&tables);
}

/// Marks files with many deletions in a window of entries.
pub(crate) fn compact_on_deletions(options: &mut Options, window: usize, deletions: usize) {
    compact_on_deletion_share(options, window, deletions, 0.0);
}

/// Also marks files with a share of deletions.
pub(crate) fn compact_on_deletion_share(
    options: &mut Options,
    window: usize,
    deletions: usize,
    share: f64,
) {
    compact_large_on_deletions(options, window, deletions, share, 0);
}

/// Marks files of a size at least.
pub(crate) fn compact_large_on_deletions(
    options: &mut Options,
    window: usize,
    deletions: usize,
    share: f64,
    file_bytes: u64,
) {
    let mut collector = CompactOnDeletion::default();
    collector.set_window_size(window as u64);
    collector.set_deletion_trigger(deletions as u64);
    collector.set_deletion_ratio(share);
    collector.set_min_file_size(file_bytes);
    let mut all = options.inner.get_table_properties_collectors().to_vec();
    all.push(TablePropertiesCollector::CompactOnDeletion(collector));
    options.inner.set_table_properties_collectors(&all);
}
