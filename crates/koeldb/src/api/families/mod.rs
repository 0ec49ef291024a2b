//! Keys with columns in several column families: attribute groups, and cursors over the families.
//!
//! An *attribute group* is the entity of a key in one column family. `groups` writes and reads those
//! of a key together. `merged` moves cursors over several families in step; the cursor of `coalescing`
//! shows the columns of a key as one entity, that of `by_group` shows them family by family.

mod by_group;
mod coalescing;
mod groups;
mod merged;

#[cfg(test)]
#[cfg(not(loom))]
mod tests;

pub use by_group::AttributeGroupCursor;
pub use coalescing::CoalescingCursor;
