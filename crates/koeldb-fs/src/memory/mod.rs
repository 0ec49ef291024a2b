//! A file system in memory that models what survives a power cut.
//!
//! For each file it keeps the synced image and the ordered changes since then, and likewise for
//! directory entries. [`MemoryFileSystem::crash_image`] builds a state that could be found after a
//! crash; a [`SurvivalPolicy`] selects the unsynced changes that survive. Entries refer to files by
//! identity, so that unlinked open files, hard links and replaced names behave as on a real system;
//! syncing a file does not sync its name.
//!
//! Tests that sweep over crash points either repeat a script with [`MemoryFileSystem::arm_crash`],
//! or run it once with [`MemoryFileSystem::observe_mutations`] and take images on the way.
//!
//! - `system`: the file system. `tree`: names. `content`: one file's bytes. `handle`: open files
//!   and locks. `crash`: the policies.
//!
//! One lock orders all changes, so that an image is consistent; reads take only their file's lock.

mod content;
mod crash;
mod handle;
mod system;
mod tree;

pub use crash::SurvivalPolicy;
pub use system::MemoryFileSystem;
