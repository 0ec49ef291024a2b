//! Buckets, key heads and versions: the chains of the hash table, in the arena.
//!
//! ```text
//! bucket   = 7 slots ‖ chain                                                                 a cache line
//! slot     = address of a head: 48 bits ‖ fingerprint: 16 bits
//! chain    = address of the first head: 48 bits ‖ filter: 16 bits
//! head     = address of the next head: 48 bits ‖ fingerprint: 16 bits ‖ newest version: pointer ‖ node
//! node     = next older version: pointer ‖ entry
//! ```
//!
//! A bucket leads to the *distinct keys* that hash to it, by slots that are filled one after the other, and by a chain once
//! all are. The first entry of a key is its head; all entries of the key, the head among them, are chained from newest to
//! oldest. A fingerprint is a part of the hash of a head's key: mostly one line says which head to look at, or that there
//! is none. For chains four bits of a key's hash choose one of the bits of the filter: where it is not set, no head is
//! looked at.
//!
//! # Invariants
//! - **N1** Heads and nodes lie in the arena of the table, are whole before anything leads to them, and are reached by
//!   loads with acquire of what was stored with release. What a head was made with never changes.
//! - **N2** A slot changes once, from nothing to a head, when all before it are filled: who finds one empty has seen all
//!   keys of the bucket, and if it is still empty there is no other. A chain changes only by a new head that leads to the
//!   one it held, and a link to a version only by a new node that leads to the one it held: whoever is inside of a chain
//!   meets everything behind. Nothing is removed and no address is used twice, so a chain that begins with what it began
//!   with before is unchanged.
//! - **N3** A node pointer stays with the table it was made in: in its buckets, logs and runs.
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

/// Without room for tags beside addresses, all keys of a bucket are compared.
const HAS_TAGS: bool = usize::BITS > ADDRESS_BITS;
/// The keys that a bucket has a place for, if chains are as good as places.
const PLACES: usize = 8;
/// The slots of a bucket. In models of tables chains begin with the second key.
const SLOTS: usize = if cfg!(all(loom, test)) { 1 } else { PLACES - 1 };

/// The hash of a user key, taken apart.
#[derive(Clone, Copy)]
pub(super) struct KeyHash(pub(super) u64);

impl KeyHash {
    /// Its bucket among a power of two of them.
    #[inline]
    fn index(self, bucket_count: usize) -> usize {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "only the low bits are wanted"
        )]
        let low = self.0 as usize;
        low & (bucket_count - 1)
    }

    /// The bit of the filter.
    #[inline]
    fn filter(self) -> u16 {
        1 << (self.0 >> 60)
    }

    /// What is kept beside the address of a head: none of the bits above, nor those of the index. Never 0, which is beside
    /// no address.
    #[inline]
    fn fingerprint(self) -> u16 {
        ((self.0 >> 44) & 0xffff) as u16 | 1
    }
}

/// An address with 16 bits beside it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Tagged(*mut Head);

impl Tagged {
    #[inline]
    fn new(head: *mut Head, tag: u16) -> Self {
        if HAS_TAGS {
            Tagged(head.map_addr(|address| address | usize::from(tag) << ADDRESS_BITS))
        } else {
            Tagged(head)
        }
    }

    #[inline]
    fn address(self) -> *mut Head {
        if HAS_TAGS {
            self.0
                .map_addr(|address| address & ((1 << ADDRESS_BITS) - 1))
        } else {
            self.0
        }
    }

    #[inline]
    fn tag(self) -> Option<u16> {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the bits above an address are sixteen"
        )]
        HAS_TAGS.then(|| (self.0.addr() >> ADDRESS_BITS) as u16)
    }

    /// Whether the tag is this one, if there is one.
    #[inline]
    fn may_have(self, tag: u16) -> bool {
        !HAS_TAGS || self.0.addr() ^ usize::from(tag) << ADDRESS_BITS < 1 << ADDRESS_BITS
    }
}

/// The link to the next older version; the entry follows.
#[repr(C)]
pub(super) struct Node {
    older: AtomicPtr<Node>,
}

/// The first entry of a key, with the anchor of its versions.
#[repr(C)]
pub(super) struct Head {
    next: AtomicPtr<Head>,
    newest: AtomicPtr<Node>,
    node: Node,
}

impl Node {
    fn empty() -> Self {
        Node {
            older: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

const NODE_BYTES: usize = size_of::<Node>();
// What follows a head follows its node.
const _: () = assert!(offset_of!(Head, node) + NODE_BYTES == size_of::<Head>());

/// Where a node is, for logs and runs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct NodePtr(NonNull<Node>);

// SAFETY: nodes are changed through atomics alone once there is a pointer (N1), so any thread may read them.
unsafe impl Send for NodePtr {}
// SAFETY: as above.
unsafe impl Sync for NodePtr {}

impl NodePtr {
    /// The entry of the node.
    #[inline]
    pub(super) fn entry(self, arena: &SharedArena) -> Entry<'_> {
        // SAFETY: the node is whole (N1) and its table, and so the arena, is the caller's (N3).
        let node = unsafe { NodeRef::new(self.0.as_ptr()) };
        node.expect("it is not null").entry(arena)
    }

    /// The node itself, on loan from the table.
    #[inline]
    pub(super) fn borrow(self, _arena: &SharedArena) -> NodeRef<'_> {
        // SAFETY: as in `entry`.
        let node = unsafe { NodeRef::new(self.0.as_ptr()) };
        node.expect("it is not null")
    }

    /// The pointer as a slot of a log keeps it.
    #[inline]
    pub(super) fn as_ptr(self) -> *mut Node {
        self.0.as_ptr()
    }

    /// The pointer that a slot kept; none if nothing was stored yet.
    #[inline]
    pub(super) fn from_slot(node: *mut Node) -> Option<Self> {
        NonNull::new(node).map(NodePtr)
    }

    /// Asks for the node and what follows, to behind a key of some length and so many bytes more.
    #[inline]
    pub(super) fn prefetch(self, behind_key: usize) {
        let address = self.0.as_ptr().cast::<i8>();
        super::prefetch(address);
        for line in (0..=behind_key).step_by(LINE_BYTES) {
            super::prefetch(address.wrapping_add(40 + line));
        }
    }
}

/// A node of a table that is borrowed for `'t` (N1).
#[derive(Clone, Copy)]
pub(super) struct NodeRef<'t> {
    node: NonNull<Node>,
    table: PhantomData<&'t Node>,
}

impl<'t> NodeRef<'t> {
    /// # Safety
    /// `node` must be null, or a node under N1 in an arena that lives for `'t`.
    #[inline]
    unsafe fn new(node: *mut Node) -> Option<Self> {
        NonNull::new(node).map(|node| NodeRef {
            node,
            table: PhantomData,
        })
    }

    #[inline]
    pub(super) fn as_ptr(self) -> NodePtr {
        NodePtr(self.node)
    }

    #[inline]
    fn link(self) -> &'t AtomicPtr<Node> {
        // SAFETY: every node begins with its link and lives as long as the arena (N1).
        &unsafe { self.node.as_ref() }.older
    }

    /// The next older version.
    #[inline]
    pub(super) fn older(self) -> Option<NodeRef<'t>> {
        let older = self.link().load(Ordering::Acquire);
        // SAFETY: the link was loaded with acquire (N1).
        unsafe { NodeRef::new(older) }
    }

    #[inline]
    fn entry_start(self) -> NonNull<u8> {
        // SAFETY: an entry follows the link of every node, and lies in the same block.
        unsafe { self.node.cast::<u8>().add(NODE_BYTES) }
    }

    #[inline]
    pub(super) fn entry(self, arena: &'t SharedArena) -> Entry<'t> {
        // SAFETY: the entry was written before anything led to the node (N1), in this arena (N3).
        unsafe { Entry::new(self.entry_start(), arena) }
    }

    #[inline]
    fn footer(self, arena: &'t SharedArena) -> u64 {
        self.entry(arena).user_key_and_footer().1
    }
}

/// The head of a key in a table that is borrowed for `'t` (N1).
#[derive(Clone, Copy)]
pub(super) struct HeadRef<'t> {
    head: NonNull<Head>,
    table: PhantomData<&'t Head>,
}

impl<'t> HeadRef<'t> {
    /// # Safety
    /// `head` must be null, or a head under N1 in an arena that lives for `'t`.
    #[inline]
    unsafe fn new(head: *mut Head) -> Option<Self> {
        NonNull::new(head).map(|head| HeadRef {
            head,
            table: PhantomData,
        })
    }

    #[inline]
    fn get(self) -> &'t Head {
        // SAFETY: heads live as long as the arena and are changed through atomics alone (N1).
        unsafe { self.head.as_ref() }
    }

    /// The node in the head.
    #[inline]
    pub(super) fn node(self) -> NodeRef<'t> {
        // SAFETY: a raw projection into a head that lives; it keeps the provenance of the whole allocation, which
        // the entry behind needs.
        let node = unsafe { &raw mut (*self.head.as_ptr()).node };
        // SAFETY: the node of a head is a node, and as old as the head.
        unsafe { NodeRef::new(node) }.expect("a field of a head is not at null")
    }

    #[inline]
    fn next_and_fingerprint(self) -> Tagged {
        // Written once, before anything led to the head.
        Tagged(self.get().next.load(Ordering::Relaxed))
    }

    #[inline]
    fn next(self) -> Option<HeadRef<'t>> {
        // SAFETY: what a head was made with was visible to who published it, and so is to whoever reached it (N1).
        unsafe { HeadRef::new(self.next_and_fingerprint().address()) }
    }

    /// The newest version of the key.
    #[inline]
    pub(super) fn newest(self) -> NodeRef<'t> {
        let newest = self.get().newest.load(Ordering::Acquire);
        // SAFETY: the link was loaded with acquire (N1).
        unsafe { NodeRef::new(newest) }.unwrap_or_else(|| self.node())
    }

    /// Adds a version of the key, written and not yet linked; newest first. `Err` if there is one of the sequence
    /// number.
    fn add_version(
        self,
        node: NodeRef<'t>,
        footer: u64,
        arena: &'t SharedArena,
    ) -> Result<(), Duplicate> {
        let mut link = &self.get().newest;
        // Nothing newer than the head itself is said by null, so that a head is whole without its own address.
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

/// One bucket: a cache line.
#[repr(C, align(64))]
pub(super) struct Bucket<const N: usize = SLOTS> {
    slots: [AtomicPtr<Head>; N],
    chain: AtomicPtr<Head>,
}

/// What a bucket takes for each key that it has a place for. A bucket is a line of the cache whatever an address takes.
pub(crate) const PLACE_BYTES: usize = size_of::<Bucket>() / PLACES;

/// Where a key that is not in a bucket would be put: the first of its slots that was empty, or its chain as it was.
#[derive(Clone, Copy)]
pub(super) struct Vacancy {
    slot: usize,
    seen: Tagged,
}

impl<const N: usize> Bucket<N> {
    #[cfg(all(loom, test))]
    pub(super) fn empty() -> Self {
        Bucket {
            slots: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            chain: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// The word of the chain, and the first head in it.
    #[inline]
    fn chain<'t>(&'t self) -> (Tagged, Option<HeadRef<'t>>) {
        let word = Tagged(self.chain.load(Ordering::Acquire));
        // SAFETY: the chain was loaded with acquire (N1).
        (word, unsafe { HeadRef::new(word.address()) })
    }

    /// The heads in slots that have the fingerprint of a hash, and a bit for each slot that is empty. What to look at is not
    /// known before the line is there: until then no branch depends on it.
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
            // What was there still is (N2): to load it once more costs less than to keep all.
            let word = Tagged(self.slots.get(slot)?.load(Ordering::Relaxed));
            // SAFETY: the slot was not empty when it was loaded with acquire (N1).
            unsafe { HeadRef::new(word.address()) }
        });
        (heads, empty)
    }

    /// The head of the key; or where it would be put, if there is none.
    #[inline]
    pub(super) fn find<'t>(
        &'t self,
        hash: KeyHash,
        user_key: &[u8],
        arena: &'t SharedArena,
    ) -> Result<HeadRef<'t>, Vacancy> {
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
            // Where slots were filled meanwhile, this is one of them: it will be seen when it is to be filled.
            let slot = empty.trailing_zeros() as usize;
            let seen = Tagged(ptr::null_mut());
            return Err(Vacancy { slot, seen });
        }
        Err(Vacancy { slot: N, seen })
    }

    /// Inserts an entry: as the first one of its key, or among the versions of it.
    #[inline]
    pub(super) fn insert(
        &self,
        hash: KeyHash,
        parts: &EntryParts<'_>,
        lease: &mut Lease<'_>,
        arena: &SharedArena,
    ) -> Result<NodePtr, Duplicate> {
        let mut vacancy = match self.find(hash, parts.user_key, arena) {
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

    /// Puts a head, written and not yet linked, where its key would be put; says whether it is still the place.
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

    /// The number of keys.
    #[cfg(all(test, not(loom)))]
    pub(super) fn len(&self) -> usize {
        let chained = std::iter::successors(self.chain().1, |head| head.next());
        let filled = |slot: &&AtomicPtr<Head>| !slot.load(Ordering::Acquire).is_null();
        self.slots.iter().filter(filled).count() + chained.count()
    }

    /// Asks for the bucket.
    #[inline]
    pub(super) fn prefetch(&self) {
        super::prefetch(ptr::from_ref(self).cast());
    }

    /// Asks for the head of a key, if it may be there.
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

/// Writes an entry behind the head of a key, to which nothing leads yet.
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
    // SAFETY: the head was just written, in memory that lives as long as the arena, and its entry behind it.
    unsafe { HeadRef::new(head.as_ptr()) }.expect("memory is not at null")
}

/// Writes an entry behind a node, to which nothing leads yet.
#[inline]
fn make_node<'t>(
    lease: &mut Lease<'t>,
    parts: &EntryParts<'_>,
    arena: &SharedArena,
) -> NodeRef<'t> {
    let node = write_behind(Node::empty(), lease, parts, arena);
    // SAFETY: the node was just written, in memory that lives as long as the arena, and its entry behind it.
    unsafe { NodeRef::new(node.as_ptr()) }.expect("memory is not at null")
}

/// Writes a head or a node and behind it, as both end in a node, an entry.
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
    // SAFETY: the memory is this call's alone, aligned to 8 and larger than what is written.
    unsafe { start.cast::<T>().write(front) };
    // SAFETY: as above.
    let entry = unsafe { start.add(size_of::<T>()) };
    // SAFETY: the entry fills what is left of the memory, and the value its own, in the arena of the lease.
    unsafe { parts.write_apart(entry, far) };
    start.cast()
}

/// The buckets of a table.
pub(crate) struct BucketArray {
    buckets: NonNull<[Bucket]>,
    /// What they lie in, if not in memory of the allocator.
    pages: Option<Pages>,
}

// SAFETY: buckets are changed through atomics alone, and the array owns them as a box would.
unsafe impl Send for BucketArray {}
// SAFETY: as above.
unsafe impl Sync for BucketArray {}

impl BucketArray {
    /// Empty buckets with places for `count` keys.
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
            // Zeros, as below.
            return with(pages.start().cast(), Some(pages));
        }
        if count == 0 {
            return with(NonNull::dangling(), None);
        }
        // Zeros, which the system has ready and a loop over null pointers would have to write. All words of a bucket are
        // null then.
        let layout = Layout::array::<Bucket>(bucket_count).expect("a part of the write buffer");
        // SAFETY: there is one bucket at least.
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

    #[inline]
    fn all(&self) -> &[Bucket] {
        // SAFETY: `new` made as many buckets there, and they live as long as the array.
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

    /// Whether it is what [`new`](Self::new) makes for so many keys.
    pub(crate) fn is_for(&self, count: usize) -> bool {
        self.buckets.len() == count.div_ceil(PLACES)
    }

    pub(crate) fn memory_bytes(&self) -> usize {
        self.buckets.len() * size_of::<Bucket>()
    }

    /// What an array with places for so many keys takes.
    pub(crate) fn bytes_of(count: usize) -> usize {
        count.div_ceil(PLACES) * size_of::<Bucket>()
    }

    /// The bucket of a key.
    #[inline]
    pub(super) fn bucket(&self, hash: KeyHash) -> &Bucket {
        &self.all()[hash.index(self.buckets.len())]
    }
}

impl Drop for BucketArray {
    fn drop(&mut self) {
        if self.pages.is_none() {
            // SAFETY: without pages they are as a box would have them, whose only owner this is.
            drop(unsafe { Box::from_raw(self.buckets.as_ptr()) });
        }
    }
}
