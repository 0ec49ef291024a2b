//! A concurrent skip list whose nodes and entries lie together in the arena: the default representation.
//!
//! The list is William Pugh's, as RocksDB uses it (`memtable/inlineskiplist.h`): nothing is ever removed, so a
//! reader follows links with acquire loads and no other care. What differs is that a link above the bottom
//! carries a *hint*: the first bytes of the key it leads to, as a number. Most steps of a search end with "the
//! next node lies behind the target", and the hint says so without fetching that node from memory.
//!
//! ```text
//! node = upper link (height - 1) ‖ … ‖ upper link 1 ‖ bottom link ‖ entry          (a node's address is that of
//! upper link = hint: u64 ‖ node: pointer       bottom link = node: pointer          its bottom link)
//! ```
//!
//! # Invariants
//! - **S1** A node is reached only through the head, or through a link loaded with acquire that was stored with
//!   release after the node was written; from then on only its links change.
//! - **S2** A link of level `i` leads to a node of height above `i`, that is with links `0..=i`, and to a node
//!   behind the one it belongs to. The head has all links and no entry.
//! - **S3** Links are only ever changed by putting a new node between two neighbours: what a link leads to moves
//!   closer, never away, and every node of level `i` is in level `i - 1`.
//! - **S4** A link's hint is lowered, with release, after the link was changed. A reader that loads the hint first
//!   and the link second so finds a node whose own hint is the same or lower. "The hint is below the target's"
//!   therefore means that the node is before the target; "above" means that going down a level is safe, since the
//!   only nodes it can jump over are new ones, which the level below has as well (S3).
//! - **S5** The bottom link decides membership: it is linked first, and compared with keys, not hints.
#![expect(
    unsafe_code,
    reason = "nodes of varying size with the entry inside cost one cache miss where boxes cost three"
)]

use std::cmp::Ordering as Order;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use koeldb_base::KeyOrder;
use koeldb_base::key::footer_of;

use super::Duplicate;
use super::entry::{Entry, EntryParts};
use crate::arena::SharedArena;

const MAX_HEIGHT: usize = 20;
/// One node in this many rises to the next level.
const BRANCHING: u64 = 2;

/// The bottom link; the entry follows, the upper links precede.
#[repr(C)]
struct Node {
    next: AtomicPtr<Node>,
}

#[repr(C)]
struct UpperLink {
    hint: AtomicU64,
    next: AtomicPtr<Node>,
}

const NODE_BYTES: usize = size_of::<Node>();
const LINK_BYTES: usize = size_of::<UpperLink>();
const _: () = assert!(align_of::<UpperLink>() <= 8 && LINK_BYTES.is_multiple_of(8));

/// A node of the list that is borrowed for `'list`, or the head (S1).
#[derive(Clone, Copy)]
struct NodeRef<'list> {
    node: NonNull<Node>,
    list: PhantomData<&'list SkipList>,
}

impl<'list> NodeRef<'list> {
    /// The node behind a loaded link.
    ///
    /// # Safety
    /// `node` must be null, or a node under S1 in an arena that lives for `'list`.
    #[inline]
    unsafe fn new(node: *mut Node) -> Option<Self> {
        NonNull::new(node).map(|node| NodeRef {
            node,
            list: PhantomData,
        })
    }

    #[inline]
    fn bottom(self) -> &'list AtomicPtr<Node> {
        // SAFETY: every node begins with its bottom link and lives as long as the arena (S1).
        &unsafe { self.node.as_ref() }.next
    }

    /// The link of level `level`.
    ///
    /// # Safety
    /// The node must have been reached on this level or above, or made with a greater height (S2).
    #[inline]
    unsafe fn upper(self, level: usize) -> &'list UpperLink {
        debug_assert!((1..MAX_HEIGHT).contains(&level));
        let bottom = self.node.cast::<UpperLink>();
        // SAFETY: by the contract `level` upper links precede the bottom link.
        let link = unsafe { bottom.sub(level) };
        // SAFETY: as above; links are only changed atomically.
        unsafe { link.as_ref() }
    }

    /// The node behind the bottom link.
    #[inline]
    fn next(self) -> Option<NodeRef<'list>> {
        let next = self.bottom().load(Ordering::Acquire);
        // SAFETY: the link was loaded with acquire (S1).
        unsafe { NodeRef::new(next) }
    }

    #[inline]
    fn entry_start(self) -> NonNull<u8> {
        // SAFETY: something follows the bottom link of every node, and lies in the same block.
        unsafe { self.node.cast::<u8>().add(NODE_BYTES) }
    }
}

/// Where a search goes: the place before all entries of a user key whose footer is at most this one.
#[derive(Clone, Copy)]
struct Target<'k> {
    user_key: &'k [u8],
    footer: u64,
    hint: u64,
}

/// The first bytes of a key as a number that never falls when keys rise; equal numbers say nothing.
#[inline]
fn hint_of(order: &KeyOrder, user_key: &[u8]) -> u64 {
    let first = || match user_key.first_chunk::<8>() {
        Some(first) => u64::from_le_bytes(*first).swap_bytes(),
        None => short_hint(user_key),
    };
    match order {
        KeyOrder::Bytewise => first(),
        KeyOrder::ReverseBytewise => !first(),
        KeyOrder::Uint64 => <[u8; 8]>::try_from(user_key).map_or(u64::MAX, u64::from_le_bytes),
        KeyOrder::Custom(_) => 0,
    }
}

fn short_hint(user_key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    bytes[..user_key.len()].copy_from_slice(user_key);
    u64::from_le_bytes(bytes).swap_bytes()
}

/// Spreads the bits of a number over all of it: the finalizer of Steele and others' SplitMix64.
#[inline]
fn mix(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The height of an entry's node, drawn from the entry itself, so that a replay builds the same list.
#[inline]
fn height_of(parts: &EntryParts<'_>) -> usize {
    let last = parts.user_key.last_chunk::<8>();
    let last = last.map_or(0, |last| u64::from_le_bytes(*last));
    let mut bits = mix(mix(parts.seqno).wrapping_add(last));
    let mut height = 1;
    while height < MAX_HEIGHT && bits.is_multiple_of(BRANCHING) {
        bits /= BRANCHING;
        height += 1;
    }
    height
}

/// The list. Inserts and reads go on at once, from any number of threads.
pub(crate) struct SkipList {
    order: KeyOrder,
    arena: SharedArena,
    head: NonNull<Node>,
    /// The tallest node; upper levels are empty.
    height: AtomicUsize,
    /// The last node of each level, or a node that was: where ascending keys go.
    tails: [AtomicPtr<Node>; MAX_HEIGHT],
}

// SAFETY: nodes are shared under S1 and changed through atomics alone; the rest is `Send + Sync` by itself.
unsafe impl Send for SkipList {}
// SAFETY: as above.
unsafe impl Sync for SkipList {}

impl SkipList {
    /// An empty list in `arena`.
    pub(crate) fn new(order: KeyOrder, arena: SharedArena) -> Self {
        let start = arena
            .arena()
            .allocate_apart((MAX_HEIGHT - 1) * LINK_BYTES + NODE_BYTES);
        // SAFETY: the memory has room for all links and is this list's alone.
        let head = unsafe { Self::init_links(start, MAX_HEIGHT) };
        SkipList {
            order,
            arena,
            head,
            height: AtomicUsize::new(1),
            tails: Default::default(),
        }
    }

    /// Makes the links of a node of `height` at `start`: each leads nowhere.
    ///
    /// # Safety
    /// The bytes of so many links at `start` must be the caller's, aligned to 8.
    #[inline]
    unsafe fn init_links(start: NonNull<u8>, height: usize) -> NonNull<Node> {
        let mut link = start.cast::<UpperLink>();
        for _ in 1..height {
            let empty = UpperLink {
                hint: AtomicU64::new(u64::MAX),
                next: AtomicPtr::new(ptr::null_mut()),
            };
            // SAFETY: by the contract there is room for this link.
            unsafe { link.write(empty) };
            // SAFETY: by the contract at least the bottom link follows.
            link = unsafe { link.add(1) };
        }
        let node = link.cast::<Node>();
        let empty = Node {
            next: AtomicPtr::new(ptr::null_mut()),
        };
        // SAFETY: by the contract there is room for the bottom link.
        unsafe { node.write(empty) };
        node
    }

    #[inline]
    fn head(&self) -> NodeRef<'_> {
        NodeRef {
            node: self.head,
            list: PhantomData,
        }
    }

    #[inline]
    fn target<'k>(&self, user_key: &'k [u8], footer: u64) -> Target<'k> {
        Target {
            user_key,
            footer,
            hint: hint_of(&self.order, user_key),
        }
    }

    #[inline]
    fn internal_target<'k>(&self, internal_key: &'k [u8]) -> Target<'k> {
        let (user_key, footer) = footer_of(internal_key);
        self.target(user_key, footer)
    }

    /// The entry of a node that is not the head.
    #[inline]
    fn entry<'list>(&'list self, node: NodeRef<'list>) -> Entry<'list> {
        // SAFETY: nodes other than the head, which no link leads to, carry an entry written before S1 let it be
        // seen, in this arena.
        unsafe { Entry::new(node.entry_start(), &self.arena) }
    }

    /// Compares the entry of `node` with the target.
    #[inline]
    fn compare(&self, node: NodeRef<'_>, target: &Target<'_>) -> Order {
        let (user_key, footer) = self.entry(node).user_key_and_footer();
        hint_of(&self.order, user_key)
            .cmp(&target.hint)
            .then_with(|| self.order.compare(user_key, target.user_key))
            .then_with(|| target.footer.cmp(&footer))
    }

    /// The last node of `level` before the target, from `node`, which is before it.
    ///
    /// # Safety
    /// `node` must have been reached on this level or above.
    #[inline]
    unsafe fn walk_level<'list>(
        &'list self,
        mut node: NodeRef<'list>,
        level: usize,
        target: &Target<'_>,
    ) -> NodeRef<'list> {
        loop {
            // SAFETY: by the contract, and for later nodes because they were reached on this level.
            let link = unsafe { node.upper(level) };
            // The hint first, the link second (S4).
            let hint = link.hint.load(Ordering::Acquire);
            if hint > target.hint {
                return node;
            }
            let next = link.next.load(Ordering::Acquire);
            // SAFETY: the link was loaded with acquire (S1).
            let Some(next) = (unsafe { NodeRef::new(next) }) else {
                return node;
            };
            if hint == target.hint && self.compare(next, target).is_ge() {
                return node;
            }
            node = next;
        }
    }

    /// The last node before the target, the head if there is none, and the node behind it.
    #[inline]
    fn search(&self, target: &Target<'_>) -> (NodeRef<'_>, Option<NodeRef<'_>>) {
        let mut node = self.head();
        for level in (1..self.height.load(Ordering::Relaxed)).rev() {
            // SAFETY: `node` was reached on the level above, or is the head.
            node = unsafe { self.walk_level(node, level, target) };
        }
        loop {
            match node.next() {
                Some(next) if self.compare(next, target).is_lt() => node = next,
                next => return (node, next),
            }
        }
    }

    /// The last node of all, the head of an empty list.
    fn last(&self) -> NodeRef<'_> {
        let mut node = self.head();
        for level in (1..self.height.load(Ordering::Relaxed)).rev() {
            loop {
                // SAFETY: `node` was reached on this level or above, or is the head.
                let link = unsafe { node.upper(level) };
                let next = link.next.load(Ordering::Acquire);
                // SAFETY: the link was loaded with acquire (S1).
                match unsafe { NodeRef::new(next) } {
                    Some(next) => node = next,
                    None => break,
                }
            }
        }
        while let Some(next) = node.next() {
            node = next;
        }
        node
    }

    /// The node, unless it is the head.
    #[inline]
    fn not_head<'list>(&'list self, node: NodeRef<'list>) -> Option<NodeRef<'list>> {
        (node.node != self.head).then_some(node)
    }

    /// Whether the target lies behind all entries: if so, `before` is filled with the last nodes of the levels
    /// below `height`.
    #[inline]
    fn find_at_tail<'list>(
        &'list self,
        target: &Target<'_>,
        height: usize,
        before: &mut [NodeRef<'list>; MAX_HEIGHT],
    ) -> bool {
        for (level, before) in before.iter_mut().enumerate().take(height) {
            let tail = self.tails[level].load(Ordering::Acquire);
            // SAFETY: tails are stored with release after their nodes were linked (S1).
            let Some(tail) = (unsafe { NodeRef::new(tail) }) else {
                return false;
            };
            let next = if level == 0 {
                tail.bottom()
            } else {
                // SAFETY: `link` stores a node as tail of the levels it has.
                unsafe { &tail.upper(level).next }
            };
            if !next.load(Ordering::Relaxed).is_null() || self.compare(tail, target).is_ge() {
                return false;
            }
            *before = tail;
        }
        true
    }

    /// Inserts an entry.
    ///
    /// # Errors
    /// If there is an entry of the same user key and sequence number, of whatever type.
    pub(crate) fn insert(&self, parts: &EntryParts<'_>) -> Result<(), Duplicate> {
        let height = height_of(parts);
        let links = (height - 1) * LINK_BYTES;
        let encoded_len = parts.encoded_len();
        let start = {
            let mut lease = self.arena.arena().lease();
            lease.count(parts.seqno, parts.value_type, encoded_len);
            lease.allocate(links + NODE_BYTES + encoded_len)
        };
        // SAFETY: the memory has room for the links and is this call's alone (A2).
        let node = unsafe { Self::init_links(start, height) };
        let node = NodeRef {
            node,
            list: PhantomData,
        };
        // SAFETY: the entry fills what is left of the memory.
        unsafe { parts.write(node.entry_start()) };

        // Before all types of this sequence number: whichever is there is a duplicate.
        let target = self.target(parts.user_key, parts.footer() | 0xff);
        if height > self.height.load(Ordering::Relaxed) {
            self.height.fetch_max(height, Ordering::Relaxed);
        }
        let mut before = [self.head(); MAX_HEIGHT];
        if !self.find_at_tail(&target, height, &mut before) {
            before = [self.head(); MAX_HEIGHT];
            let mut at = self.head();
            for level in (1..self.height.load(Ordering::Relaxed)).rev() {
                // SAFETY: `at` was reached on the level above, or is the head.
                at = unsafe { self.walk_level(at, level, &target) };
                before[level] = at;
            }
            before[0] = at;
        }
        if !self.link_bottom(node, before[0], &target, parts) {
            let mut lease = self.arena.arena().lease();
            lease.discount(parts.value_type, encoded_len);
            return Err(Duplicate);
        }
        for (level, &before) in before.iter().enumerate().take(height).skip(1) {
            // SAFETY: `before` was reached on this level, and `node` is of a greater height.
            unsafe { self.link_upper(node, before, level, target) };
        }
        Ok(())
    }

    /// Links `node` behind `before` or a node not yet there when that was found; false if it is a duplicate.
    #[inline]
    fn link_bottom(
        &self,
        node: NodeRef<'_>,
        mut before: NodeRef<'_>,
        target: &Target<'_>,
        parts: &EntryParts<'_>,
    ) -> bool {
        loop {
            let next = before.next();
            if let Some(next) = next {
                match self.compare(next, target) {
                    Order::Less => {
                        before = next;
                        continue;
                    }
                    _ if self.is_duplicate(next, parts) => return false,
                    _ => {}
                }
            }
            let next = next.map_or(ptr::null_mut(), |next| next.node.as_ptr());
            node.bottom().store(next, Ordering::Relaxed);
            let linked = before.bottom().compare_exchange(
                next,
                node.node.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            );
            if linked.is_ok() {
                if next.is_null() {
                    self.tails[0].store(node.node.as_ptr(), Ordering::Release);
                }
                return true;
            }
        }
    }

    fn is_duplicate(&self, node: NodeRef<'_>, parts: &EntryParts<'_>) -> bool {
        let (user_key, footer) = self.entry(node).user_key_and_footer();
        footer >> 8 == parts.seqno && self.order.compare(user_key, parts.user_key).is_eq()
    }

    /// Links `node` into an upper level behind `before` or a later node.
    ///
    /// # Safety
    /// `before` must have been reached on this level or above, and `node` be of a greater height.
    unsafe fn link_upper(
        &self,
        node: NodeRef<'_>,
        mut before: NodeRef<'_>,
        level: usize,
        target: Target<'_>,
    ) {
        // SAFETY: by the contract.
        let own = unsafe { node.upper(level) };
        loop {
            // SAFETY: by the contract, and for later nodes because they were reached on this level.
            let link = unsafe { before.upper(level) };
            let next = link.next.load(Ordering::Acquire);
            // SAFETY: the link was loaded with acquire (S1).
            let next_node = unsafe { NodeRef::new(next) };
            if let Some(next) = next_node
                && self.compare(next, &target).is_lt()
            {
                before = next;
                continue;
            }
            let next_hint = next_node.map_or(u64::MAX, |next| {
                hint_of(&self.order, self.entry(next).user_key_and_footer().0)
            });
            own.next.store(next, Ordering::Relaxed);
            own.hint.store(next_hint, Ordering::Relaxed);
            let linked = link.next.compare_exchange(
                next,
                node.node.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            );
            if linked.is_ok() {
                link.hint.fetch_min(target.hint, Ordering::Release);
                if next.is_null() {
                    self.tails[level].store(node.node.as_ptr(), Ordering::Release);
                }
                return;
            }
        }
    }

    /// The first entry at or after an internal key, and those behind it.
    #[inline]
    pub(crate) fn entries_from(&self, internal_key: &[u8]) -> SkipListEntries<'_> {
        let (_, node) = self.search(&self.internal_target(internal_key));
        SkipListEntries { list: self, node }
    }

    /// The memory the entries lie in.
    #[inline]
    pub(crate) fn arena(&self) -> &SharedArena {
        &self.arena
    }
}

/// Asks for the memory at `address` before it is needed.
#[inline]
fn prefetch(address: *const i8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch reads nothing; any address will do.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address);
    };
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// Entries in order, live.
pub(crate) struct SkipListEntries<'list> {
    list: &'list SkipList,
    node: Option<NodeRef<'list>>,
}

impl<'list> Iterator for SkipListEntries<'list> {
    type Item = Entry<'list>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'list>> {
        let node = self.node?;
        self.node = node.next();
        Some(self.list.entry(node))
    }
}

/// A position in a list; live: it meets entries inserted after it was made.
pub(crate) struct SkipListCursor {
    list: Arc<SkipList>,
    node: Option<NonNull<Node>>,
}

// SAFETY: the list is `Send + Sync`, and the node one of its own, which any thread may read (S1).
unsafe impl Send for SkipListCursor {}

impl SkipListCursor {
    pub(crate) fn new(list: Arc<SkipList>) -> Self {
        SkipListCursor { list, node: None }
    }

    #[inline]
    fn node(&self) -> Option<NodeRef<'_>> {
        self.node.map(|node| NodeRef {
            node,
            list: PhantomData,
        })
    }

    #[inline]
    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        self.node().map(|node| self.list.entry(node))
    }

    /// Gives up the position; the list itself is live.
    pub(crate) fn refresh(&mut self) {
        self.node = None;
    }

    pub(crate) fn seek_to_first(&mut self) {
        self.node = self.list.head().next().map(|node| node.node);
    }

    pub(crate) fn seek_to_last(&mut self) {
        self.node = self.list.not_head(self.list.last()).map(|node| node.node);
    }

    pub(crate) fn seek(&mut self, internal_key: &[u8]) {
        let (_, node) = self.list.search(&self.list.internal_target(internal_key));
        self.node = node.map(|node| node.node);
    }

    pub(crate) fn seek_for_prev(&mut self, internal_key: &[u8]) {
        let target = self.list.internal_target(internal_key);
        let (before, node) = self.list.search(&target);
        self.node = match node {
            Some(node) if self.list.compare(node, &target).is_eq() => Some(node.node),
            _ => self.list.not_head(before).map(|node| node.node),
        };
    }

    #[inline]
    pub(crate) fn next(&mut self) {
        let next = self.node().and_then(NodeRef::next);
        if let Some(next) = next {
            prefetch(next.bottom().load(Ordering::Relaxed).cast());
        }
        self.node = next.map(|node| node.node);
    }

    pub(crate) fn prev(&mut self) {
        let Some(entry) = self.entry() else { return };
        let target = self.list.internal_target(entry.key());
        let (before, _) = self.list.search(&target);
        self.node = self.list.not_head(before).map(|node| node.node);
    }
}
