//! Buckets, key heads and versions: the chains of the hash table, in the arena.
//!
//! ```text
//! bucket   = 7 slots ‖ chain    (one cache line)
//! slot     = address of a head: 48 bits ‖ fingerprint: 16 bits
//! chain    = address of the first head: 48 bits ‖ filter: 16 bits
//! head     = address of the next head: 48 bits ‖ fingerprint: 16 bits
//!            ‖ newest version: pointer ‖ node
//! node     = next older version: pointer ‖ entry
//! ```
//!
//! A bucket leads to the *distinct keys* that hash to it, by slots that are filled in order, and by
//! a chain once all are filled. The first entry of a key is its head; all entries of the key,
//! including the head, are chained from newest to oldest. A fingerprint is a part of the hash of a
//! head's key: usually one cache line tells which head to access, or that there is none. For
//! chains, four bits of a key's hash choose one bit of the filter: if it is not set, no head is
//! accessed.
//!
//! # Invariants
//! - **N1** Heads and nodes are in the arena of the table, are complete before any link leads to
//!   them, and are reached by acquire loads of pointers stored with release. The initial content of
//!   a head never changes.
//! - **N2** A slot changes once, from null to a head, when all before it are filled: a reader that
//!   finds one empty has seen all keys of the bucket, and if it is still empty there is no other. A
//!   chain changes only by a new head that leads to the one it held, and a link to a version only
//!   by a new node that leads to the one it held: a reader inside a chain meets everything after
//!   its position. Nothing is removed and no address is used twice, so a chain whose first head is
//!   unchanged is unchanged.
//! - **N3** A node pointer stays with the table it was created in: in its buckets, logs and runs.
#![expect(
    unsafe_code,
    reason = "nodes with their entries inside cost one cache miss where boxes cost three"
)]

#[cfg(not(all(loom, test)))]
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::marker::PhantomData;
use std::mem::offset_of;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

#[cfg(not(all(loom, test)))]
use crate::arena::HUGE_BYTES;
use crate::arena::{ADDRESS_BITS, LINE_BYTES, Lease, Pages, SharedArena};
use crate::rep::Duplicate;
use crate::rep::entry::{Entry, EntryParts};
use crate::sync::AtomicPtr;

/// Whether addresses leave room for tags; otherwise all keys of a bucket are compared.
const HAS_TAGS: bool = usize::BITS > ADDRESS_BITS;
/// The number of keys per bucket, counting the overflow chain as one.
const PLACES: usize = 8;
/// The number of slots of a bucket. In models of tables chains begin with the second key.
const SLOTS: usize = if cfg!(all(loom, test)) { 1 } else { PLACES - 1 };

/// The hash of a user key, whose bits give bucket index, filter bit and fingerprint.
#[derive(Clone, Copy)]
pub(super) struct KeyHash(pub(super) u64);

impl KeyHash {
    /// Returns the index of the key's bucket; `bucket_count` is a power of two.
    #[inline]
    fn index(self, bucket_count: usize) -> usize {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "only the low bits are wanted"
        )]
        let low = self.0 as usize;
        low & (bucket_count - 1)
    }

    /// Returns the bit of this hash in the 16-bit filter of a bucket's overflow chain.
    #[inline]
    fn filter(self) -> u16 {
        1 << (self.0 >> 60)
    }

    /// Returns the 16-bit fingerprint of this hash that is stored with the address of a key head.
    ///
    /// It shares no bits with the filter or the index. It is never 0, which marks an empty slot.
    #[inline]
    fn fingerprint(self) -> u16 {
        ((self.0 >> 44) & 0xffff) as u16 | 1
    }
}

/// A pointer to a key head with a 16-bit tag in its high bits.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Tagged(*mut Head);

impl Tagged {
    /// Packs the address of a head and a tag, which is omitted where addresses leave no room.
    #[inline]
    fn new(head: *mut Head, tag: u16) -> Self {
        if HAS_TAGS {
            Tagged(head.map_addr(|address| address | usize::from(tag) << ADDRESS_BITS))
        } else {
            Tagged(head)
        }
    }

    /// The address without the tag.
    #[inline]
    fn address(self) -> *mut Head {
        if HAS_TAGS {
            self.0
                .map_addr(|address| address & ((1 << ADDRESS_BITS) - 1))
        } else {
            self.0
        }
    }

    /// The tag; `None` if addresses leave no room for tags.
    #[inline]
    fn tag(self) -> Option<u16> {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the bits above an address are sixteen"
        )]
        HAS_TAGS.then(|| (self.0.addr() >> ADDRESS_BITS) as u16)
    }

    /// Whether the tag is `tag`; true where there are no tags.
    #[inline]
    fn may_have(self, tag: u16) -> bool {
        !HAS_TAGS || self.0.addr() ^ usize::from(tag) << ADDRESS_BITS < 1 << ADDRESS_BITS
    }
}

/// A version of a key: the link to the next older version, which the entry follows in memory.
#[repr(C)]
pub(super) struct Node {
    older: AtomicPtr<Node>,
}

/// The head of a key: the links to the next key and newest version, and the first entry.
#[repr(C)]
pub(super) struct Head {
    next: AtomicPtr<Head>,
    newest: AtomicPtr<Node>,
    node: Node,
}

impl Node {
    /// Creates a node without an older version.
    fn empty() -> Self {
        Node {
            older: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

const NODE_BYTES: usize = size_of::<Node>();
// The entry after a head is thus also after its node.
const _: () = assert!(offset_of!(Head, node) + NODE_BYTES == size_of::<Head>());

/// A pointer to a node, as stored in logs and runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct NodePtr(NonNull<Node>);

// SAFETY: nodes are changed through atomics alone once there is a pointer (N1), so any thread may
// read them.
unsafe impl Send for NodePtr {}
// SAFETY: as above.
unsafe impl Sync for NodePtr {}

impl NodePtr {
    /// Returns the entry of the node; `arena` must be that of its table.
    #[inline]
    pub(super) fn entry(self, arena: &SharedArena) -> Entry<'_> {
        // SAFETY: the node is complete (N1) and the caller has its table, and so the arena (N3).
        let node = unsafe { NodeRef::new(self.0.as_ptr()) };
        node.expect("it is not null").entry(arena)
    }

    /// Returns a reference to the node; the arena must be that of its table.
    #[inline]
    pub(super) fn borrow(self, _arena: &SharedArena) -> NodeRef<'_> {
        // SAFETY: as in `entry`.
        let node = unsafe { NodeRef::new(self.0.as_ptr()) };
        node.expect("it is not null")
    }

    /// The raw pointer, for a slot of a log.
    #[inline]
    pub(super) fn as_ptr(self) -> *mut Node {
        self.0.as_ptr()
    }

    /// Converts the pointer stored in a log slot; `None` if the slot is empty.
    #[inline]
    pub(super) fn from_slot(node: *mut Node) -> Option<Self> {
        NonNull::new(node).map(NodePtr)
    }

    /// Prefetches the node, its key, and `behind_key` bytes after the key.
    #[inline]
    pub(super) fn prefetch(self, behind_key: usize) {
        let address = self.0.as_ptr().cast::<i8>();
        super::prefetch(address);
        for line in (0..=behind_key).step_by(LINE_BYTES) {
            super::prefetch(address.wrapping_add(40 + line));
        }
    }
}

/// A reference to a node, a version of a key (invariant N1 of the module).
#[derive(Clone, Copy)]
pub(super) struct NodeRef<'t> {
    node: NonNull<Node>,
    table: PhantomData<&'t Node>,
}

impl<'t> NodeRef<'t> {
    /// Converts a loaded node pointer to a reference; `None` for a null pointer.
    ///
    /// # Safety
    /// `node` must be null, or a node under N1 in an arena that lives for `'t`.
    #[inline]
    unsafe fn new(node: *mut Node) -> Option<Self> {
        NonNull::new(node).map(|node| NodeRef {
            node,
            table: PhantomData,
        })
    }

    /// Converts the reference to a pointer for logs and runs.
    #[inline]
    pub(super) fn as_ptr(self) -> NodePtr {
        NodePtr(self.node)
    }

    /// The atomic pointer to the next older version.
    #[inline]
    fn link(self) -> &'t AtomicPtr<Node> {
        // SAFETY: every node begins with its link and lives as long as the arena (N1).
        &unsafe { self.node.as_ref() }.older
    }

    /// The next older version of the key; `None` if this is the oldest.
    #[inline]
    pub(super) fn older(self) -> Option<NodeRef<'t>> {
        let older = self.link().load(Ordering::Acquire);
        // SAFETY: the link was loaded with acquire (N1).
        unsafe { NodeRef::new(older) }
    }

    /// The address of the entry, which follows the link.
    #[inline]
    fn entry_start(self) -> NonNull<u8> {
        // SAFETY: the link of every node is followed by an entry in the same block.
        unsafe { self.node.cast::<u8>().add(NODE_BYTES) }
    }

    /// Returns the entry of the node; `arena` must be that of its table.
    #[inline]
    pub(super) fn entry(self, arena: &'t SharedArena) -> Entry<'t> {
        // SAFETY: the entry was written before any link led to the node (N1), in this arena (N3).
        unsafe { Entry::new(self.entry_start(), arena) }
    }

    /// The footer of the entry's key: sequence number and type.
    #[inline]
    fn footer(self, arena: &'t SharedArena) -> u64 {
        self.entry(arena).user_key_and_footer().1
    }
}

/// A reference to the head of a key (invariant N1 of the module).
#[derive(Clone, Copy)]
pub(super) struct HeadRef<'t> {
    head: NonNull<Head>,
    table: PhantomData<&'t Head>,
}

impl<'t> HeadRef<'t> {
    /// Converts a loaded head pointer to a reference; `None` for a null pointer.
    ///
    /// # Safety
    /// `head` must be null, or a head under N1 in an arena that lives for `'t`.
    #[inline]
    unsafe fn new(head: *mut Head) -> Option<Self> {
        NonNull::new(head).map(|head| HeadRef {
            head,
            table: PhantomData,
        })
    }

    /// The head that is referred to.
    #[inline]
    fn get(self) -> &'t Head {
        // SAFETY: heads live as long as the arena and are changed through atomics alone (N1).
        unsafe { self.head.as_ref() }
    }

    /// Returns the node of the key's first inserted entry, which is embedded in the key's head.
    #[inline]
    pub(super) fn node(self) -> NodeRef<'t> {
        // SAFETY: a raw projection into a head that lives; it keeps the provenance of the whole
        // allocation, which the entry after it needs.
        let node = unsafe { &raw mut (*self.head.as_ptr()).node };
        // SAFETY: the node of a head is a node, and as old as the head.
        unsafe { NodeRef::new(node) }.expect("a field of a head is not at null")
    }

    /// The pointer to the next head of the overflow chain, tagged with this head's own fingerprint.
    #[inline]
    fn next_and_fingerprint(self) -> Tagged {
        // Written once, before any link led to the head.
        Tagged(self.get().next.load(Ordering::Relaxed))
    }

    /// The next head of the overflow chain; `None` at its end.
    #[inline]
    fn next(self) -> Option<HeadRef<'t>> {
        // SAFETY: the initial content of a head was visible to its publisher, and so is to every
        // thread that reached it (N1).
        unsafe { HeadRef::new(self.next_and_fingerprint().address()) }
    }

    /// The newest version of the key.
    #[inline]
    pub(super) fn newest(self) -> NodeRef<'t> {
        let newest = self.get().newest.load(Ordering::Acquire);
        // SAFETY: the link was loaded with acquire (N1).
        unsafe { NodeRef::new(newest) }.unwrap_or_else(|| self.node())
    }

    /// Links a written node into the versions of the key, which are ordered newest first.
    ///
    /// Returns `Err` if there is one with the sequence number.
    fn add_version(
        self,
        node: NodeRef<'t>,
        footer: u64,
        arena: &'t SharedArena,
    ) -> Result<(), Duplicate> {
        let mut link = &self.get().newest;
        // Null means that nothing is newer than the head itself, so that a head is complete without
        // its own address.
        let mut at_anchor = true;
        loop {
            let found = link.load(Ordering::Acquire);
            // SAFETY: the link was loaded with acquire (N1).
            let mut next = unsafe { NodeRef::new(found) };
            if at_anchor {
                next = next.or_else(|| Some(self.node()));
            }
            match next {
                Some(next) if next.footer(arena) >> 8 == footer >> 8 => return Err(Duplicate),
                Some(next) if next.footer(arena) > footer => {
                    link = next.link();
                    at_anchor = false;
                }
                _ => {
                    let older = next.map_or(ptr::null_mut(), |next| next.node.as_ptr());
                    node.link().store(older, Ordering::Relaxed);
                    let linked = link.compare_exchange(
                        found,
                        node.node.as_ptr(),
                        Ordering::Release,
                        Ordering::Relaxed,
                    );
                    if linked.is_ok() {
                        return Ok(());
                    }
                }
            }
        }
    }
}

/// A hash bucket, one cache line: slots for key heads, and an overflow chain of further heads.
#[repr(C, align(64))]
pub(super) struct Bucket<const N: usize = SLOTS> {
    slots: [AtomicPtr<Head>; N],
    chain: AtomicPtr<Head>,
}

/// The size of a bucket in bytes per key of its capacity. A bucket is one cache line for any size
/// of an address.
pub(crate) const PLACE_BYTES: usize = size_of::<Bucket>() / PLACES;

/// The place in a bucket for a new key: its first empty slot, or the overflow chain as read.
#[derive(Clone, Copy)]
pub(super) struct Vacancy {
    slot: usize,
    seen: Tagged,
}

/// The result of a search for a key: its head, or the slot where one would be inserted.
pub(super) type Place<'t> = Result<HeadRef<'t>, Vacancy>;

impl<const N: usize> Bucket<N> {
    #[cfg(all(loom, test))]
    pub(super) fn empty() -> Self {
        Bucket {
            slots: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            chain: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// Loads the overflow chain of the bucket: its tagged pointer, and the first head in it.
    #[inline]
    fn chain<'t>(&'t self) -> (Tagged, Option<HeadRef<'t>>) {
        let word = Tagged(self.chain.load(Ordering::Acquire));
        // SAFETY: the chain was loaded with acquire (N1).
        (word, unsafe { HeadRef::new(word.address()) })
    }

    /// Returns the heads in slots whose fingerprint matches a hash, and a bit mask of empty slots.
    ///
    /// The matching slots are unknown until the cache line arrives: no branch depends on it before.
    #[inline]
    fn slots_like<'t>(&'t self, hash: KeyHash) -> (impl Iterator<Item = HeadRef<'t>>, u32) {
        let words: [Tagged; N] =
            std::array::from_fn(|slot| Tagged(self.slots[slot].load(Ordering::Acquire)));
        let bits = |is_set: fn(Tagged, u16) -> bool| {
            words.iter().rev().fold(0, |bits, &word| {
                bits << 1 | u32::from(is_set(word, hash.fingerprint()))
            })
        };
        let empty = bits(|word, _| word.address().is_null());
        let mut like = bits(Tagged::may_have) & !empty;
        let heads = std::iter::from_fn(move || {
            let slot = like.trailing_zeros() as usize;
            like &= like.wrapping_sub(1);
            // A filled slot never changes (N2): loading it again costs less than keeping all.
            let word = Tagged(self.slots.get(slot)?.load(Ordering::Relaxed));
            // SAFETY: the slot was not empty when it was loaded with acquire (N1).
            unsafe { HeadRef::new(word.address()) }
        });
        (heads, empty)
    }

    /// Finds the head of a user key, or the vacant place where it would be inserted.
    #[inline]
    pub(super) fn find<'t>(
        &'t self,
        hash: KeyHash,
        user_key: &[u8],
        arena: &'t SharedArena,
    ) -> Place<'t> {
        let has_key =
            |head: HeadRef<'t>| head.node().entry(arena).user_key_and_footer().0 == user_key;
        let (like, empty) = self.slots_like(hash);
        for head in like {
            if has_key(head) {
                return Ok(head);
            }
        }
        let mut seen = Tagged(ptr::null_mut());
        if empty & 1 << (N - 1) == 0 {
            let mut chained;
            (seen, chained) = self.chain();
            if seen.tag().is_none_or(|tag| tag & hash.filter() != 0) {
                while let Some(head) = chained {
                    let found = head.next_and_fingerprint();
                    if found.may_have(hash.fingerprint()) && has_key(head) {
                        return Ok(head);
                    }
                    chained = head.next();
                }
            }
        }
        if empty != 0 {
            // If slots were filled meanwhile, this is one of them: filling it will fail and detect
            // them.
            let slot = empty.trailing_zeros() as usize;
            let seen = Tagged(ptr::null_mut());
            return Err(Vacancy { slot, seen });
        }
        Err(Vacancy { slot: N, seen })
    }

    /// Inserts an entry: as the head of a new key, or among the versions of an existing one.
    ///
    /// `place` is the result of an earlier search; it may be outdated.
    #[inline]
    pub(super) fn insert(
        &self,
        hash: KeyHash,
        parts: &EntryParts<'_>,
        place: Place<'_>,
        lease: &mut Lease<'_>,
        arena: &SharedArena,
    ) -> Result<NodePtr, Duplicate> {
        let mut vacancy = match place {
            Ok(head) => {
                let node = make_node(lease, parts, arena);
                head.add_version(node, parts.footer(), arena)?;
                return Ok(node.as_ptr());
            }
            Err(vacancy) => vacancy,
        };
        let own = make_head(lease, parts, arena);
        while !self.push(vacancy, own, hash) {
            match self.find(hash, parts.user_key, arena) {
                Ok(head) => {
                    head.add_version(own.node(), parts.footer(), arena)?;
                    break;
                }
                Err(next) => vacancy = next,
            }
        }
        Ok(own.node().as_ptr())
    }

    /// Links a written head into the vacant place for its key; false if the place has changed.
    #[inline]
    fn push(&self, vacancy: Vacancy, head: HeadRef<'_>, hash: KeyHash) -> bool {
        let Vacancy { slot, seen } = vacancy;
        let address = head.head.as_ptr();
        let (place, word) = match self.slots.get(slot) {
            Some(slot) => (slot, Tagged::new(address, hash.fingerprint())),
            None => {
                let next = Tagged::new(seen.address(), hash.fingerprint());
                head.get().next.store(next.0, Ordering::Relaxed);
                let filter = seen.tag().unwrap_or(0) | hash.filter();
                (&self.chain, Tagged::new(address, filter))
            }
        };
        let pushed = place.compare_exchange(seen.0, word.0, Ordering::AcqRel, Ordering::Relaxed);
        pushed.is_ok()
    }

    /// The number of keys in the bucket.
    #[cfg(all(test, not(loom)))]
    pub(super) fn len(&self) -> usize {
        let chained = std::iter::successors(self.chain().1, |head| head.next());
        let filled = |slot: &&AtomicPtr<Head>| !slot.load(Ordering::Acquire).is_null();
        self.slots.iter().filter(filled).count() + chained.count()
    }

    /// Prefetches the cache line of the bucket.
    #[inline]
    pub(super) fn prefetch(&self) {
        super::prefetch(ptr::from_ref(self).cast());
    }

    /// Prefetches the head of a key, if it may be present.
    #[inline]
    pub(super) fn prefetch_head(&self, hash: KeyHash) {
        let head = self.slots_like(hash).0.next().or_else(|| {
            let (word, first) = self.chain();
            first.filter(|_| word.tag().is_some_and(|tag| tag & hash.filter() != 0))
        });
        if let Some(head) = head {
            head.node().as_ptr().prefetch(0);
        }
    }
}

/// Allocates and writes the head of a new key with its first entry, not linked yet.
#[inline]
fn make_head<'t>(
    lease: &mut Lease<'t>,
    parts: &EntryParts<'_>,
    arena: &SharedArena,
) -> HeadRef<'t> {
    let empty = Head {
        next: AtomicPtr::new(ptr::null_mut()),
        newest: AtomicPtr::new(ptr::null_mut()),
        node: Node::empty(),
    };
    let head = write_behind(empty, lease, parts, arena);
    // SAFETY: the head was just written, in memory that lives as long as the arena, followed by its
    // entry.
    unsafe { HeadRef::new(head.as_ptr()) }.expect("memory is not at null")
}

/// Allocates and writes the node of a version with its entry, not linked yet.
#[inline]
fn make_node<'t>(
    lease: &mut Lease<'t>,
    parts: &EntryParts<'_>,
    arena: &SharedArena,
) -> NodeRef<'t> {
    let node = write_behind(Node::empty(), lease, parts, arena);
    // SAFETY: the node was just written, in memory that lives as long as the arena, followed by its
    // entry.
    unsafe { NodeRef::new(node.as_ptr()) }.expect("memory is not at null")
}

/// Allocates memory for a head or node `front` with an entry after it, and writes both.
#[inline]
fn write_behind<T>(
    front: T,
    lease: &mut Lease<'_>,
    parts: &EntryParts<'_>,
    arena: &SharedArena,
) -> NonNull<T> {
    const { assert!(align_of::<T>() <= 8) };
    let far = parts.allocate_far(lease, arena);
    let start = lease.allocate(size_of::<T>() + parts.near_len(far));
    // SAFETY: this call alone owns the memory, which is aligned to 8 and larger than what is
    // written.
    unsafe { start.cast::<T>().write(front) };
    // SAFETY: as above.
    let entry = unsafe { start.add(size_of::<T>()) };
    // SAFETY: the entry fills the rest of the memory, and the value its own, in the arena of the
    // lease.
    unsafe { parts.write_apart(entry, far) };
    start.cast()
}

/// The bucket array of a sorted hash memtable.
pub(crate) struct BucketArray {
    buckets: NonNull<[Bucket]>,
    /// The huge pages of the buckets; `None` if the allocator provided the memory.
    pages: Option<Pages>,
}

// SAFETY: buckets are changed through atomics alone, and the array owns them as a box would.
unsafe impl Send for BucketArray {}
// SAFETY: as above.
unsafe impl Sync for BucketArray {}

impl BucketArray {
    /// Creates an array of empty buckets with a capacity of `count` keys, eight for each bucket.
    #[cfg(not(all(loom, test)))]
    pub(crate) fn new(count: usize) -> Self {
        let bytes = Self::bytes_of(count);
        let bucket_count = count.div_ceil(PLACES);
        let with = |start: NonNull<Bucket>, pages| BucketArray {
            buckets: NonNull::slice_from_raw_parts(start, bucket_count),
            pages,
        };
        if bytes >= HUGE_BYTES
            && let Some(pages) = Pages::new(bytes)
        {
            // Zeroed, as below.
            return with(pages.start().cast(), Some(pages));
        }
        if count == 0 {
            return with(NonNull::dangling(), None);
        }
        // Zeroed memory, which the system has ready, while null pointers would be written by a
        // loop. All words of a bucket are then null.
        let layout = Layout::array::<Bucket>(bucket_count).expect("a part of the write buffer");
        // SAFETY: there is at least one bucket.
        let zeros = unsafe { alloc_zeroed(layout) };
        let Some(start) = NonNull::new(zeros) else {
            handle_alloc_error(layout)
        };
        with(start.cast(), None)
    }

    #[cfg(all(loom, test))]
    pub(crate) fn new(count: usize) -> Self {
        let buckets: Box<[Bucket]> = (0..count.div_ceil(PLACES))
            .map(|_| Bucket::empty())
            .collect();
        BucketArray {
            buckets: NonNull::new(Box::into_raw(buckets)).expect("a box is not at null"),
            pages: None,
        }
    }

    /// All buckets as a slice.
    #[inline]
    fn all(&self) -> &[Bucket] {
        // SAFETY: `new` created as many buckets there, and they live as long as the array.
        unsafe { self.buckets.as_ref() }
    }

    /// Empties all buckets.
    pub(crate) fn clear(&mut self) {
        for bucket in self.all() {
            for word in bucket.slots.iter().chain([&bucket.chain]) {
                word.store(ptr::null_mut(), Ordering::Relaxed);
            }
        }
    }

    /// Whether the array has as many buckets as a new one with a capacity of `count` keys.
    pub(crate) fn is_for(&self, count: usize) -> bool {
        self.buckets.len() == count.div_ceil(PLACES)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>()
    }

    /// The size in bytes of a bucket array with a capacity of `count` keys.
    pub(crate) fn bytes_of(count: usize) -> usize {
        count.div_ceil(PLACES) * size_of::<Bucket>()
    }

    /// Returns the bucket of a key, given its hash.
    #[inline]
    pub(super) fn bucket(&self, hash: KeyHash) -> &Bucket {
        &self.all()[hash.index(self.buckets.len())]
    }
}

impl Drop for BucketArray {
    fn drop(&mut self) {
        if self.pages.is_none() {
            // SAFETY: without pages they are as a box would have them, and this is the only owner.
            drop(unsafe { Box::from_raw(self.buckets.as_ptr()) });
        }
    }
}
