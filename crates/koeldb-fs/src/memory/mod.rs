//! A file system in memory that knows what a power cut would leave of it.
//!
//! For each file it keeps the image that was synced and the changes since, in order; the same for directory
//! entries. [`MemoryFileSystem::crash_image`] builds from them what could be found after a crash, under a
//! [`SurvivalPolicy`] that says what luck the unsynced rest had. Entries refer to files by identity, so that
//! unlinked open files, hard links and replaced names behave as on a real system; a file's sync says nothing
//! about its name.
//!
//! Tests that sweep over crash points either run a script again and again with [`MemoryFileSystem::arm_crash`],
//! or once with [`MemoryFileSystem::observe_mutations`], taking images as it goes.
//!
//! - `system`: the file system. `tree`: names. `content`: one file's bytes. `handle`: what is open. `crash`: the
//!   policies.
//!
//! One lock orders all changes, so that an image is a moment; reads take only their file's lock.

mod content;
mod crash;
mod handle;
mod system;
mod tree;

pub use crash::SurvivalPolicy;
pub use system::MemoryFileSystem;
