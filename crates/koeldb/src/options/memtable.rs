//! Memtable factories: the data structures of memtables, and their settings.

use koeldb_base::coding::to_usize;
use koeldb_memtable::RepKind;

use super::declare::option_section;
use super::object::{Description, set_members, unknown_id, with_members};
use super::registry::{self, OptionValue, Reading, Refusal, Settings, Style};
use super::value::Scalar as _;

option_section! {
    /// The options of skip list memtables (RocksDB: `SkipListFactory`).
    pub struct SkipListOptions, "memtable factory skip_list | SkipListFactory";
    options {
        /// Entries compared linearly before a seek falls back to the tree.
        [honoured fixed "<=5.4"] lookahead: u64 = 0, "Short form skip_list:N; printed as SkipListFactory or SkipListFactory:N.",
            set_lookahead(value: u64), get_lookahead;
    }
    declined {}
    removed {}
    aliases {}
    accessors {
        SkipListOptions {};
    }
}

option_section! {
    /// The options of vector memtables (RocksDB: `VectorRepFactory`).
    pub struct VectorOptions, "memtable factory vector | VectorRepFactory";
    options {
        /// Initial capacity of the vector.
        [honoured fixed "<=5.4"] count: u64 = 0, "Short form vector:N.",
            set_count(value: u64), get_count;
    }
    declined {}
    removed {}
    aliases {}
    accessors {
        VectorOptions {};
    }
}

option_section! {
    /// The options of hash skip list memtables (RocksDB: `HashSkipListRepFactory`).
    pub struct HashSkipListOptions, "memtable factory prefix_hash | HashSkipListRepFactory";
    options {
        /// Hash buckets.
        [honoured fixed "<=5.4"] bucket_count: u64 = 1_000_000, "Short form prefix_hash:N; needs prefix_extractor.",
            set_bucket_count(value: u64), get_bucket_count;
        /// Tower height of the bucket lists.
        [accepted fixed "<=5.4"] skiplist_height: i32 = 4, "",
            set_skiplist_height(count: u32 as Count), get_skiplist_height;
        /// Branching of the bucket lists.
        [accepted fixed "<=5.4"] branching_factor: i32 = 4, "",
            set_branching_factor(count: u32 as Count), get_branching_factor;
    }
    declined {}
    removed {}
    aliases {}
    accessors {
        HashSkipListOptions {};
    }
}

option_section! {
    /// The options of hash linked list memtables (RocksDB: `HashLinkListRepFactory`).
    pub struct HashLinkListOptions, "memtable factory hash_linkedlist | HashLinkListRepFactory";
    options {
        /// Hash buckets.
        [honoured fixed "<=5.4"] bucket_count: u64 = 50_000, "Short form hash_linkedlist:N; needs prefix_extractor.",
            set_bucket_count(value: u64), get_bucket_count;
        /// Entries at which a bucket becomes a skip list.
        [honoured fixed "<=5.4"] threshold: u32 = 256, "",
            set_threshold(count: u32), get_threshold;
        /// Huge pages for the bucket array.
        [accepted fixed "<=5.4"] huge_page_size: u64 = 0, "Bytes.",
            set_huge_page_size(bytes: u64), get_huge_page_size;
        /// Entries of a bucket above which a flush logs a warning.
        [honoured fixed "<=5.4"] logging_threshold: i32 = 4096, "<=0 = never.",
            set_logging_threshold(count: u32 as Count), get_logging_threshold;
        /// Log the number and sizes of the used buckets at a flush.
        [honoured fixed "<=5.4"] log_when_flash: bool = true, "",
            set_log_when_flash(on: bool), get_log_when_flash;
    }
    declined {}
    removed {}
    aliases {}
    accessors {
        HashLinkListOptions {};
    }
}

option_section! {
    /// The options of sorted hash memtables (`HashSpdbRepFactory`).
    pub struct SortedHashOptions, "memtable factory hash_spdb | HashSpdbRepFactory";
    options {
        /// Keys that there are places for in hash buckets, eight in each.
        [honoured fixed "Speedb 2.6-2.8"] hash_bucket_count: u64 = 1_000_000, "Short form :N (2.6: N=0 gives 1000000); as a member 0 = by write_buffer_size and the length of entries.",
            set_hash_bucket_count(value: u64), get_hash_bucket_count;
        /// Entries per vector of the write list; full ones are sorted in the background.
        [honoured fixed "KoelDB"] sorted_vector_limit: u64 = 10_000, "A constant in every release of Speedb.",
            set_sorted_vector_limit(value: u64), get_sorted_vector_limit;
        /// Switches how iterators over the active memtable are made.
        [accepted fixed "Speedb 2.6"] use_seek_parallel_threshold: bool = false, "Written as a member.",
            set_use_seek_parallel_threshold(on: bool), get_use_seek_parallel_threshold;
        /// Merge sorted runs in the background.
        [accepted fixed "Speedb 2.7-2.8"] use_merge: bool = true, "Written as a member.",
            set_use_merge(on: bool), get_use_merge;
    }
    declined {}
    removed {}
    aliases {
        bucket_count = hash_bucket_count;
        use_seek_parralel_threshold = use_seek_parallel_threshold;
    }
    accessors {
        SortedHashOptions {};
    }
}

/// The data structure of the memtables of a column family.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum MemtableFactory {
    /// A skip list: `skip_list`. The default.
    SkipList(SkipListOptions),
    /// A vector, sorted when it is read: `vector`. For bulk loads.
    Vector(VectorOptions),
    /// A hash table of prefixes, each with a skip list: `prefix_hash`.
    HashSkipList(HashSkipListOptions),
    /// A hash table of prefixes, each with a linked list: `hash_linkedlist`.
    HashLinkList(HashLinkListOptions),
    /// A hash table of whole keys, sorted when it is scanned: `speedb.HashSpdRepFactory`,
    /// `hash_spdb`.
    SortedHash(SortedHashOptions),
}

impl Default for MemtableFactory {
    fn default() -> Self {
        MemtableFactory::SkipList(SkipListOptions::default())
    }
}

impl MemtableFactory {
    /// The name of the factory in OPTIONS files.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            MemtableFactory::SkipList(_) => "SkipListFactory",
            MemtableFactory::Vector(_) => "VectorRepFactory",
            MemtableFactory::HashSkipList(_) => "HashSkipListRepFactory",
            MemtableFactory::HashLinkList(_) => "HashLinkListRepFactory",
            MemtableFactory::SortedHash(_) => "speedb.HashSpdRepFactory",
        }
    }

    /// Returns the memtable representation that the factory creates, with its settings.
    pub(crate) fn rep(&self) -> RepKind {
        match self {
            MemtableFactory::SkipList(options) => RepKind::SkipList {
                lookahead: to_usize(options.lookahead),
            },
            MemtableFactory::Vector(options) => RepKind::Vector {
                reserved: to_usize(options.count),
            },
            MemtableFactory::HashSkipList(options) => RepKind::HashSkipList {
                bucket_count: to_usize(options.bucket_count),
            },
            MemtableFactory::HashLinkList(options) => RepKind::HashLinkList {
                bucket_count: to_usize(options.bucket_count),
                skip_list_threshold: options.threshold as usize,
            },
            MemtableFactory::SortedHash(options) => RepKind::SortedHash {
                bucket_count: to_usize(options.hash_bucket_count),
                sorted_vector_limit: to_usize(options.sorted_vector_limit),
            },
        }
    }

    /// Returns the factory with this name or nickname, with default options; `None` if unknown.
    fn by_id(id: &str) -> Option<Self> {
        Some(match id {
            "skip_list" | "SkipListFactory" => MemtableFactory::default(),
            "vector" | "VectorRepFactory" => MemtableFactory::Vector(VectorOptions::default()),
            "prefix_hash" | "HashSkipListRepFactory" => {
                MemtableFactory::HashSkipList(HashSkipListOptions::default())
            }
            "hash_linkedlist" | "HashLinkListRepFactory" => {
                MemtableFactory::HashLinkList(HashLinkListOptions::default())
            }
            "speedb.HashSpdRepFactory" | "hash_spdb" | "HashSpdbRepFactory" => {
                MemtableFactory::SortedHash(SortedHashOptions::default())
            }
            _ => return None,
        })
    }

    /// Sets the option that the number in the short form `id:number` stands for.
    ///
    /// For the sorted hash table 0 selects the default.
    fn set_number(&mut self, number: u64) {
        match self {
            MemtableFactory::SkipList(options) => options.lookahead = number,
            MemtableFactory::Vector(options) => options.count = number,
            MemtableFactory::HashSkipList(options) => options.bucket_count = number,
            MemtableFactory::HashLinkList(options) => options.bucket_count = number,
            MemtableFactory::SortedHash(options) if number == 0 => {
                *options = SortedHashOptions::default();
            }
            MemtableFactory::SortedHash(options) => options.hash_bucket_count = number,
        }
    }
}

impl OptionValue for MemtableFactory {
    fn kind() -> String {
        "object id of a MemTableRepFactory".to_owned()
    }

    fn read(&mut self, name: &str, text: &str, reading: &mut Reading) -> Result<(), Refusal> {
        let unknown = || {
            unknown_id(
                "MemTableRepFactory",
                name,
                text,
                "skip_list[:N], vector[:N], prefix_hash[:N], hash_linkedlist[:N], speedb.HashSpdRepFactory[:N], \
                 hash_spdb[:N]",
            )
        };
        let Some(description) = Description::parse(name, text)? else {
            return Ok(());
        };
        let (id, number) = match description.id.split_once(':') {
            Some((id, number)) => (id, Some(number)),
            None => (description.id, None),
        };
        if id == "cuckoo" {
            return Err(Refusal::invalid(format!(
                "{name}={text}: the cuckoo hash memtable is not supported anymore; use skip_list"
            )));
        }
        let mut factory = Self::by_id(id).ok_or_else(unknown)?;
        if let Some(number) = number {
            factory.set_number(u64::from_text(number).ok_or_else(unknown)?);
        }
        match &mut factory {
            MemtableFactory::SkipList(options) => set_members(options, name, &description, reading),
            MemtableFactory::Vector(options) => set_members(options, name, &description, reading),
            MemtableFactory::HashSkipList(options) => {
                set_members(options, name, &description, reading)
            }
            MemtableFactory::HashLinkList(options) => {
                set_members(options, name, &description, reading)
            }
            MemtableFactory::SortedHash(options) => {
                set_members(options, name, &description, reading)
            }
        }?;
        *self = factory;
        Ok(())
    }

    fn write(&self, style: Style) -> Option<String> {
        let name = self.name();
        Some(match self {
            MemtableFactory::SkipList(options) if options.lookahead == 0 => name.to_owned(),
            MemtableFactory::SkipList(options) => format!("{name}:{}", options.lookahead),
            MemtableFactory::Vector(options) => {
                with_members(name, &registry::written(options, style))
            }
            MemtableFactory::HashSkipList(options) => {
                with_members(name, &registry::written(options, style))
            }
            MemtableFactory::HashLinkList(options) => {
                with_members(name, &registry::written(options, style))
            }
            // Releases of Speedb use different names for its members: only changed ones are
            // written.
            MemtableFactory::SortedHash(options) => {
                with_members(name, &registry::differing(options))
            }
        })
    }

    fn members_without_effect(&self, path: &str, out: &mut Settings) {
        match self {
            MemtableFactory::SkipList(options) => registry::without_effect(options, path, out),
            MemtableFactory::Vector(options) => registry::without_effect(options, path, out),
            MemtableFactory::HashSkipList(options) => registry::without_effect(options, path, out),
            MemtableFactory::HashLinkList(options) => registry::without_effect(options, path, out),
            MemtableFactory::SortedHash(options) => registry::without_effect(options, path, out),
        }
    }
}
