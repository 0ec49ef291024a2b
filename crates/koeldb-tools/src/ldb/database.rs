//! Opens a database with its last options.

use std::path::{Path, PathBuf};
use std::time::Duration;

use koeldb::{
    ColumnFamily, ColumnFamilyOptions, ConfigOptions, Db, ErrorKind, Options, TransactionDbOptions,
};

use super::args::{BlobFlags, Global};
use super::{Failure, Outcome};

/// An open database and the column family that `--column_family` selects.
pub(super) struct Database {
    pub(super) db: Db,
    pub(super) family: ColumnFamily,
}

impl Database {
    pub(super) fn close(self) -> Outcome {
        Ok(self.db.close()?)
    }
}

/// Returns the database directory of `--db`; fails if it is not given.
pub(super) fn directory(global: &Global) -> Outcome<PathBuf> {
    global
        .db
        .clone()
        .ok_or_else(|| Failure::Message("--db must be specified".to_owned()))
}

/// Opens the database read-only, or as a secondary or follower if the flags say so.
pub(super) fn open_to_read(global: &Global) -> Outcome<Database> {
    open(global, true, |_| ())
}

/// Opens the database as a secondary with the directory `own`, unless the flags name another.
pub(super) fn open_to_read_beside(global: &Global, own: &Path) -> Outcome<Database> {
    let mut global = global.clone();
    if global.leader_path.is_none() {
        global.secondary_path.get_or_insert_with(|| own.to_owned());
    }
    open_to_read(&global)
}

/// Opens the database for writing.
pub(super) fn open_to_write(global: &Global) -> Outcome<Database> {
    open(global, false, |_| ())
}

/// Opens the database for writing; `prepare` may change the options.
pub(super) fn open_to_write_with(
    global: &Global,
    prepare: impl FnOnce(&mut Options),
) -> Outcome<Database> {
    open(global, false, prepare)
}

/// Opens the database with the mode and options of the flags; `prepare` may change the options.
fn open(global: &Global, read_only: bool, prepare: impl FnOnce(&mut Options)) -> Outcome<Database> {
    if global.use_txn && read_only {
        let message = "a database for transactions is not opened read-only: remove --use_txn";
        return Err(Failure::Message(message.to_owned()));
    }
    let path = directory(global)?;
    let mut settings = Settings::load(global, global.leader_path.as_deref().unwrap_or(&path))?;
    if global.use_txn {
        check_write_policy(global.txn_write_policy.unwrap_or(0));
        let transactions = TransactionDbOptions::new();
        settings.options.set_transactions(&transactions);
    }
    prepare(&mut settings.options);
    let mut builder = Db::builder(&settings.options);
    builder
        .column_families(settings.families)
        .other_column_families(settings.options.cf_options());
    if global.ttl {
        builder.ttl(Duration::ZERO);
    }
    let mut opened = path.clone();
    match (&global.secondary_path, &global.leader_path) {
        (None, None) if read_only => {
            builder.read_only();
        }
        (None, None) => {}
        _ if !read_only => {
            let message = "a secondary or follower cannot be written: remove --secondary_path or \
                           --leader_path";
            return Err(Failure::Message(message.to_owned()));
        }
        (Some(own), _) => {
            builder.secondary(own);
        }
        (None, Some(leader)) => {
            opened.clone_from(leader);
            builder.follower(&path);
        }
    }
    let db = builder.open(&opened)?;
    for setting in db.settings_without_effect() {
        eprintln!("Note: {setting} has no effect");
    }
    let Some(family) = db.cf_handle(&global.column_family) else {
        let name = &global.column_family;
        return Err(Failure::Message(format!(
            "Invalid argument: Unknown column family {name}"
        )));
    };
    Ok(Database { db, family })
}

/// Prints a note about another write policy of transactions than 0, write-committed.
///
/// A command leaves no transaction undecided, and the files of decided ones have no policy.
fn check_write_policy(policy: i32) {
    match policy {
        0 => {}
        1 | 2 => eprintln!("Note: --txn_write_policy={policy} writes what policy 0 writes"),
        _ => eprintln!("Invalid txn_write_policy: {policy}. Must be 0, 1, or 2."),
    }
}

/// The options with which a database and its column families are opened.
pub(super) struct Settings {
    pub(super) options: Options,
    pub(super) families: Vec<(String, ColumnFamilyOptions)>,
}

impl Settings {
    /// Loads the newest OPTIONS file, if there is one, and applies the flags.
    pub(super) fn load(global: &Global, path: &Path) -> Outcome<Self> {
        // A missing plug-in, a listener for example, must not prevent access to the data.
        let mut config = ConfigOptions::new();
        config
            .set_ignore_unknown_options(global.ignore_unknown_options)
            .set_ignore_unsupported_options(true);
        let mut settings = Settings {
            options: Options::new(),
            families: Vec::new(),
        };
        if global.try_load_options.unwrap_or(true) {
            match Options::load_latest(path, &config) {
                Ok(loaded) => {
                    for option in &loaded.ignored {
                        eprintln!("Note: {option}");
                    }
                    for mended in &loaded.mended {
                        eprintln!("Note: {mended}");
                    }
                    settings.options = loaded.options;
                    settings.families = loaded.column_families;
                }
                Err(error) if global.try_load_options.is_none() && is_absent(&error) => {}
                Err(error) => return Err(error.into()),
            }
        }
        settings.families.retain(|(name, _)| name != "default");
        settings
            .options
            .apply_str(&changes(global)?, &ConfigOptions::new())?
            .create_if_missing(global.create_if_missing);
        Ok(settings)
    }

    /// Returns the options of the column family called `name`, or else the default ones.
    pub(super) fn of_family(&self, name: &str) -> &ColumnFamilyOptions {
        let named = self.families.iter().find(|(family, _)| family == name);
        named.map_or(self.options.cf_options(), |(_, options)| options)
    }
}

/// Returns the directory of the logs of the database at `path`, which has the options.
pub(super) fn log_directory<'p>(options: &'p Options, path: &'p Path) -> &'p Path {
    let elsewhere = options.get_wal_dir();
    if elsewhere.is_dir() { elsewhere } else { path }
}

/// Returns whether an error is that the OPTIONS file or its directory does not exist.
fn is_absent(error: &koeldb::Error) -> bool {
    error.kind() == ErrorKind::NotFound || error.is_path_not_found()
}

/// Converts the flags that set options to an option string.
fn changes(global: &Global) -> Outcome<String> {
    let mut text = String::new();
    let mut set = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            text.push_str(&format!("{name}={value};"));
        }
    };
    let number = |number: Option<u64>| number.map(|number| number.to_string());
    set("write_buffer_size", number(global.write_buffer_size));
    set("db_write_buffer_size", number(global.db_write_buffer_size));
    set("target_file_size_base", number(global.file_size));
    set(
        "block_based_table_factory.block_size",
        number(global.block_size),
    );
    let bloom = global.bloom_bits.map(|bits| format!("bloomfilter:{bits}"));
    set("block_based_table_factory.filter_policy", bloom);
    let prefix = global.fix_prefix_len.map(|bytes| format!("fixed:{bytes}"));
    set("prefix_extractor", prefix);
    let manual = global.auto_compaction.map(|on| (!on).to_string());
    set("disable_auto_compactions", manual);
    if global.disable_consistency_checks {
        set("force_consistency_checks", Some("false".to_owned()));
    }
    if let Some(name) = &global.compression_type {
        set("compression", Some(codec(name)?.to_owned()));
    }
    set_blob_options(&global.blob, &mut set)?;
    text.push_str(global.options.as_deref().unwrap_or_default());
    Ok(text)
}

/// Passes the options of blob files that flags set to `set`.
fn set_blob_options(flags: &BlobFlags, set: &mut impl FnMut(&str, Option<String>)) -> Outcome {
    let text = |number: Option<u64>| number.map(|number| number.to_string());
    let ratio = |number: Option<f64>| number.map(|number| number.to_string());
    if flags.enable_blob_files {
        set("enable_blob_files", Some("true".to_owned()));
    }
    if flags.enable_blob_garbage_collection {
        set("enable_blob_garbage_collection", Some("true".to_owned()));
    }
    set("min_blob_size", text(flags.min_blob_size));
    set("blob_file_size", text(flags.blob_file_size));
    let codec = flags
        .blob_compression_type
        .as_deref()
        .map(codec)
        .transpose()?;
    set("blob_compression_type", codec.map(str::to_owned));
    let cutoff = ratio(flags.blob_garbage_collection_age_cutoff);
    set("blob_garbage_collection_age_cutoff", cutoff);
    let threshold = ratio(flags.blob_garbage_collection_force_threshold);
    set("blob_garbage_collection_force_threshold", threshold);
    let readahead = text(flags.blob_compaction_readahead_size);
    set("blob_compaction_readahead_size", readahead);
    let level = flags
        .blob_file_starting_level
        .map(|level| level.to_string());
    set("blob_file_starting_level", level);
    let prepopulate = flags.prepopulate_blob_cache.map(|value| match value {
        0 => "kDisable",
        _ => "kFlushOnly",
    });
    set("prepopulate_blob_cache", prepopulate.map(str::to_owned));
    Ok(())
}

/// Returns the option-string name of a compression type.
fn codec(name: &str) -> Outcome<&'static str> {
    let codec = match name {
        "no" | "none" => Some(koeldb_base::codec::Compression::None),
        name => koeldb_base::codec::Compression::ALL
            .into_iter()
            .find(|codec| codec.name().eq_ignore_ascii_case(name)),
    };
    let codec = codec.ok_or_else(|| Failure::Message(format!("no codec is called '{name}'")))?;
    Ok(codec.option_name())
}
