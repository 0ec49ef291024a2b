//! Built-in components that options name: partitioners, checksum generators, collectors.

use koeldb::{FileChecksumGenerator, SstPartitioner, TablePropertiesCollector};

use crate::settings::option_text::Named;
use crate::settings::options::Options;

/// A cutter of tables (`rocksdb_sst_partitioner_factory_t`).
pub(crate) struct PartitionerFactory(SstPartitioner);

/// A generator of whole-file checksums (`rocksdb_file_checksum_gen_factory_t`).
pub(crate) struct ChecksumFactory(FileChecksumGenerator);

/// A collector of table properties (`rocksdb_table_properties_collector_factory_t`). No function of
/// C creates one.
pub(crate) struct CollectorFactory(TablePropertiesCollector);

/// Creates the partitioner that cuts tables where the first bytes of keys change.
pub(crate) fn fixed_prefix_partitioner(bytes: usize) -> PartitionerFactory {
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    PartitionerFactory(SstPartitioner::fixed_prefix(bytes))
}

/// Creates the generator of CRC-32C checksums.
pub(crate) fn crc32c_generator() -> ChecksumFactory {
    ChecksumFactory(FileChecksumGenerator::Crc32c)
}

/// Sets the partitioner of options.
pub(crate) fn set_partitioner(options: &mut Options, factory: Option<&PartitionerFactory>) {
    if let Some(factory) = factory {
        options.inner.set_sst_partitioner_factory(factory.0.clone());
    }
}

/// Sets the generator of checksums of options.
pub(crate) fn set_checksum_generator(options: &mut Options, factory: Option<&ChecksumFactory>) {
    if let Some(factory) = factory {
        options.inner.set_file_checksum_gen_factory(factory.0);
    }
}

/// Adds a collector to options.
pub(crate) fn add_collector(options: &mut Options, factory: Option<&CollectorFactory>) {
    if let Some(factory) = factory {
        let mut collectors = options.inner.get_table_properties_collectors().to_vec();
        collectors.push(factory.0.clone());
        options.inner.set_table_properties_collectors(&collectors);
    }
}

/// Removes a component of options.
pub(crate) fn remove(options: &mut Options, name: &str) {
    options.set_text(name, "nullptr");
}
