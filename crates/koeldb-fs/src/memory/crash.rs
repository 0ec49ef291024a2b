//! Crash images: the content that a power cut leaves, by survival policy.
//!
//! Synced content always survives. Of the rest any subset may survive; each policy picks one that
//! has broken an engine before. All choices come from the seed, in an order that depends only on
//! the file system's history.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use koeldb_base::coding::to_usize;

use super::content::{Change, Content, MemoryFile, put};
use super::tree::{Directory, Node, ROOT, TreeState};
use crate::random::Random;

/// The choice of the unsynced bytes and directory operations that survive a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SurvivalPolicy {
    /// No unsynced change survives.
    Strict,
    /// Every change survives, as after a crash of the process alone.
    Generous,
    /// Unsynced pages and directory operations survive at random.
    ///
    /// Each page of `unit_bytes` with unsynced bytes, and each directory operation, survives with
    /// probability `percent`.
    Pages {
        /// Size of a page in bytes.
        unit_bytes: u32,
        /// Probability of survival, in percent.
        percent: u8,
    },
    /// All operations before a random one survive; that one is cut at a random byte if it is a
    /// write.
    TornPrefix,
    /// Files have their lengths, but zeros in place of unsynced bytes; all entries survive.
    LengthFirst,
    /// No unsynced bytes survive, but all directory entries do.
    EntriesWithoutData,
    /// All bytes survive, but no unsynced directory entries do.
    DataWithoutEntries,
    /// The unsynced bytes of files newer than a random one survive, those of older files do not;
    /// entries survive at random.
    Reordered,
    /// Where a file was truncated and extended again, unsynced bytes show the former content; other
    /// bytes survive; entries survive at random.
    StaleReuse,
}

impl SurvivalPolicy {
    /// All policies, with six variants of pages.
    pub const ALL: [SurvivalPolicy; 14] = [
        SurvivalPolicy::Strict,
        SurvivalPolicy::Generous,
        SurvivalPolicy::pages(4096, 10),
        SurvivalPolicy::pages(4096, 50),
        SurvivalPolicy::pages(4096, 90),
        SurvivalPolicy::pages(512, 10),
        SurvivalPolicy::pages(512, 50),
        SurvivalPolicy::pages(512, 90),
        SurvivalPolicy::TornPrefix,
        SurvivalPolicy::LengthFirst,
        SurvivalPolicy::EntriesWithoutData,
        SurvivalPolicy::DataWithoutEntries,
        SurvivalPolicy::Reordered,
        SurvivalPolicy::StaleReuse,
    ];

    /// Creates the policy by which each unsynced page survives with probability `percent`.
    const fn pages(unit_bytes: u32, percent: u8) -> Self {
        SurvivalPolicy::Pages {
            unit_bytes,
            percent,
        }
    }

    /// Whether different seeds produce different images.
    #[must_use]
    pub fn is_seeded(self) -> bool {
        matches!(
            self,
            SurvivalPolicy::Pages { .. }
                | SurvivalPolicy::TornPrefix
                | SurvivalPolicy::Reordered
                | SurvivalPolicy::StaleReuse
        )
    }
}

/// The random choices of what survives in one crash image.
struct Survival {
    policy: SurvivalPolicy,
    random: Random,
    /// For a torn prefix: the sequence number of the torn operation; earlier ones survive.
    torn_at: u64,
    /// For reordering: files with a smaller id lose their unsynced bytes.
    kept_from: u64,
}

impl Survival {
    /// Draws the random choices of a policy for the present state.
    fn new(state: &TreeState, policy: SurvivalPolicy, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let files = dirty_files(state);
        let torn_at = {
            let mut sequences: Vec<u64> = state.pending.iter().map(|p| p.sequence).collect();
            for file in files.values() {
                sequences.extend(file.read().pending.iter().map(|p| p.sequence));
            }
            sequences.sort_unstable();
            let cut = to_usize(random.below(sequences.len() as u64 + 1));
            sequences.get(cut).copied().unwrap_or(u64::MAX)
        };
        let kept_from = {
            let cut = to_usize(random.below(files.len() as u64 + 1));
            files.keys().nth(cut).copied().unwrap_or(u64::MAX)
        };
        Survival {
            policy,
            random,
            torn_at,
            kept_from,
        }
    }

    /// Whether the directory operation with this sequence number survives.
    fn keeps_entry(&mut self, sequence: u64) -> bool {
        match self.policy {
            SurvivalPolicy::Strict | SurvivalPolicy::DataWithoutEntries => false,
            SurvivalPolicy::Generous
            | SurvivalPolicy::LengthFirst
            | SurvivalPolicy::EntriesWithoutData => true,
            SurvivalPolicy::Pages { percent, .. } => self.random.chance(u64::from(percent), 100),
            SurvivalPolicy::TornPrefix => sequence < self.torn_at,
            SurvivalPolicy::Reordered | SurvivalPolicy::StaleReuse => self.random.chance(1, 2),
        }
    }

    /// Returns the bytes of a file that survive the crash.
    fn content(&mut self, file: &MemoryFile) -> Arc<Vec<u8>> {
        let content = file.read();
        if content.pending.is_empty() {
            return Arc::clone(&content.synced);
        }
        match self.policy {
            SurvivalPolicy::Strict | SurvivalPolicy::EntriesWithoutData => {
                Arc::clone(&content.synced)
            }
            SurvivalPolicy::Generous | SurvivalPolicy::DataWithoutEntries => {
                Arc::clone(&content.bytes)
            }
            SurvivalPolicy::Pages {
                unit_bytes,
                percent,
            } => Arc::new(pages(
                &content,
                u64::from(unit_bytes.max(1)),
                u64::from(percent),
                &mut self.random,
            )),
            SurvivalPolicy::TornPrefix => Arc::new(torn(&content, self.torn_at, &mut self.random)),
            SurvivalPolicy::LengthFirst => {
                over_unsynced(&content, |image, range| image[range].fill(0))
            }
            SurvivalPolicy::Reordered if file.id >= self.kept_from => Arc::clone(&content.bytes),
            SurvivalPolicy::Reordered => Arc::clone(&content.synced),
            SurvivalPolicy::StaleReuse => over_unsynced(&content, |image, range| {
                let end = range.end.min(content.stale.len());
                if let Some(stale) = content.stale.get(range.start..end) {
                    image[range.start..end].copy_from_slice(stale);
                }
            }),
        }
    }
}

/// Returns the files with unsynced bytes that have, had, or may get a name.
fn dirty_files(state: &TreeState) -> BTreeMap<u64, Arc<MemoryFile>> {
    let named = state
        .directories
        .values()
        .flat_map(|directory| directory.entries.values().chain(directory.synced.values()));
    let pending = state
        .pending
        .iter()
        .flat_map(|pending| &pending.changes)
        .filter_map(|change| change.target.as_ref());
    let mut files = BTreeMap::new();
    for node in named.chain(pending) {
        if let Node::File(file) = node
            && !file.read().pending.is_empty()
        {
            files.insert(file.id, Arc::clone(file));
        }
    }
    files
}

/// Copies the content and applies `spoil` to each range of unsynced bytes in the copy.
fn over_unsynced(
    content: &Content,
    mut spoil: impl FnMut(&mut [u8], std::ops::Range<usize>),
) -> Arc<Vec<u8>> {
    let mut image = content.bytes.to_vec();
    for pending in &content.pending {
        if let Change::Write { offset, bytes } = &pending.change {
            let start = to_usize(*offset).min(image.len());
            let end = (to_usize(*offset) + bytes.len()).min(image.len());
            spoil(&mut image, start..end);
        }
    }
    Arc::new(image)
}

/// Returns the content with the changes before number `torn_at`, and a random prefix of that one.
fn torn(content: &Content, torn_at: u64, random: &mut Random) -> Vec<u8> {
    let mut image = content.synced.to_vec();
    for pending in &content.pending {
        if pending.sequence < torn_at {
            pending.change.apply(&mut image);
        } else if pending.sequence == torn_at
            && let Change::Write { offset, bytes } = &pending.change
        {
            let kept = to_usize(random.below(bytes.len() as u64 + 1));
            put(&mut image, to_usize(*offset), &bytes[..kept]);
        }
    }
    image
}

/// Returns the synced content with a random choice of the unsynced pages.
fn pages(content: &Content, unit: u64, percent: u64, random: &mut Random) -> Vec<u8> {
    let mut image = content.synced.to_vec();
    let mut dirty = BTreeSet::new();
    for pending in &content.pending {
        match &pending.change {
            Change::Write { offset, bytes } => {
                dirty.extend(offset / unit..(offset + bytes.len() as u64).div_ceil(unit));
            }
            Change::SetLen(len) => {
                if to_usize(*len) < image.len() && random.chance(percent, 100) {
                    image.truncate(to_usize(*len));
                }
            }
        }
    }
    for page in dirty {
        let start = to_usize(page * unit).min(content.bytes.len());
        let end = to_usize((page + 1) * unit).min(content.bytes.len());
        if random.chance(percent, 100) {
            put(&mut image, start, &content.bytes[start..end]);
        }
    }
    // The length is separate metadata and may be ahead of the bytes.
    if image.len() < content.bytes.len() && random.chance(1, 2) {
        image.resize(content.bytes.len(), 0);
    }
    image
}

/// The surviving entries of all directories, including unreachable ones.
fn surviving_entries(
    state: &TreeState,
    survival: &mut Survival,
) -> BTreeMap<u64, BTreeMap<OsString, Node>> {
    let mut entries: BTreeMap<_, _> = state
        .directories
        .iter()
        .map(|(&id, directory)| (id, directory.synced.clone()))
        .collect();
    for pending in &state.pending {
        if !survival.keeps_entry(pending.sequence) {
            continue;
        }
        for change in &pending.changes {
            change.apply(entries.entry(change.directory).or_default());
        }
    }
    entries
}

/// Builds the file-system state after a power cut: fully synced, without handles or locks.
pub(super) fn image(state: &TreeState, policy: SurvivalPolicy, seed: u64) -> TreeState {
    let mut survival = Survival::new(state, policy, seed);
    let entries = surviving_entries(state, &mut survival);
    let mut image = TreeState::new();
    image.next_id = state.next_id;
    image.byte_budget = state.byte_budget;
    image.file_budget = state.file_budget;
    let mut files: BTreeMap<u64, Arc<MemoryFile>> = BTreeMap::new();
    let mut seen = BTreeSet::from([ROOT]);
    let mut queue = vec![ROOT];
    while let Some(id) = queue.pop() {
        let mut directory = Directory::default();
        for (name, node) in entries.get(&id).into_iter().flatten() {
            let node = match node {
                Node::File(file) => {
                    let copy = files.entry(file.id).or_insert_with(|| {
                        let bytes = survival.content(file);
                        image.bytes_used += bytes.len() as u64;
                        image.files_used += 1;
                        let modified = file.read().modified_unix_secs;
                        Arc::new(MemoryFile::new(file.id, Content::durable(bytes, modified)))
                    });
                    copy.links.fetch_add(1, Ordering::Relaxed);
                    Node::File(Arc::clone(copy))
                }
                // A directory has one name: if a move survived only in part, the first name found
                // wins.
                Node::Directory(child) if seen.insert(*child) => {
                    queue.push(*child);
                    Node::Directory(*child)
                }
                Node::Directory(_) => continue,
            };
            directory.entries.insert(name.clone(), node);
        }
        directory.synced = directory.entries.clone();
        image.directories.insert(id, directory);
    }
    image
}
