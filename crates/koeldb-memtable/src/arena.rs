//! The memory of one memtable: allocated piece by piece, freed as a whole.
//!
//! Threads bump a pointer in one of a few *shards*, of which there are at least two for each core,
//! up to 32. A shard is borrowed with one compare-and-swap of a flag; a thread that finds its shard
//! borrowed takes the next, so threads wait for the allocator only in the rare step that fetches a
//! new block. The counters of the memtable are
//! stored in the shard as well: one borrow covers both, and no thread writes a cache line that
//! another thread's insert writes.
//!
//! Blocks grow from 4 KiB to the configured size, so that an idle memtable is small. A large entry
//! gets its own block. In a large memtable blocks are cut from *chunks*, which are huge pages.
//!
//! # Invariants
//! - **A1** A block or chunk neither moves nor shrinks nor is freed before the arena is dropped.
//! - **A2** Bytes that [`Lease::allocate`] returned belong to the caller alone and are never
//!   returned again.
//! - **A3** Addresses have at most [`ADDRESS_BITS`] bits.
//! - **A4** The [`Buffer`] over the arena stays inside [`SharedArena`], and positions in it are
//!   created by [`SharedArena::pin`] alone: they are addresses of initialized bytes that no longer
//!   change.
#![expect(
    unsafe_code,
    reason = "an arena hands out raw memory; a Vec per block could neither be shared by writers nor stay put"
)]

mod pages;

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::any::Any;
use std::hint;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use koeldb_base::coding::to_usize;
use koeldb_base::pinned::{Buffer, COPIED_BYTES_MAX, PinnedSlice, Region};
pub(crate) use koeldb_base::sync::Padded;
use koeldb_base::sync::{stripe_count, thread_number};
use koeldb_base::{SeqNo, ValueType};

use crate::recycler::Recycler;
use crate::rep::MemtableOptions;
use crate::sync::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Mutex, UnsafeCell, yield_now};
pub(crate) use pages::{HUGE_BYTES, Pages, vec_for};

const ALIGN: usize = 8;
const FIRST_BLOCK_BYTES: usize = 4 << 10;
/// The distance by which memory is prefetched ahead of allocation.
///
/// Stores to uncached memory need not be waited for, but the compare-and-swap that publishes an
/// entry comes after all of them.
const AHEAD_BYTES: usize = 2 << 10;
/// The size of a cache line.
pub(crate) const LINE_BYTES: usize = 64;
/// The size of the chunks from which a large arena cuts its blocks.
const CHUNK_BYTES: usize = HUGE_BYTES;
/// The arena size from which blocks are cut from chunks, if the memtable may become large.
const CHUNKS_FROM: usize = CHUNK_BYTES / 2;
/// The write buffer size from which a memtable may use chunks.
///
/// Its last chunk, half empty, is then a small part of it.
const CHUNKED_BUFFER_BYTES: usize = 16 * CHUNK_BYTES;
/// The number of bits in an address of an arena.
pub(crate) const ADDRESS_BITS: u32 = 48;

/// Prefetches the cache line at `address` into the CPU caches.
#[inline]
pub(crate) fn prefetch(address: *const i8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch reads nothing; any address is valid.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(address);
    };
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

/// A bump allocator of one shard: the free end of its current block.
struct Bump {
    free: AtomicPtr<u8>,
    free_bytes: AtomicUsize,
    /// The total size of all blocks that this bump pointer has used.
    block_bytes: AtomicUsize,
}

impl Default for Bump {
    fn default() -> Self {
        Bump {
            free: AtomicPtr::new(ptr::null_mut()),
            free_bytes: AtomicUsize::new(0),
            block_bytes: AtomicUsize::new(0),
        }
    }
}

/// An arena shard, which one thread borrows at a time: bump allocators and entry counters.
///
/// Only the borrower writes fields except `borrowed`.
struct Shard {
    borrowed: AtomicBool,
    /// The allocator of memory that searches access.
    near: Bump,
    /// The allocator of values stored apart from their keys.
    far: Bump,
    entries: AtomicU64,
    deletions: AtomicU64,
    data_bytes: AtomicU64,
    first_seqno: AtomicU64,
    largest_seqno: AtomicU64,
}

impl Default for Shard {
    fn default() -> Self {
        Shard {
            borrowed: AtomicBool::new(false),
            near: Bump::default(),
            far: Bump::default(),
            entries: AtomicU64::new(0),
            deletions: AtomicU64::new(0),
            data_bytes: AtomicU64::new(0),
            first_seqno: AtomicU64::new(SeqNo::MAX),
            largest_seqno: AtomicU64::new(0),
        }
    }
}

impl Shard {
    /// Tries to borrow the shard; returns false if another thread has borrowed it.
    #[inline]
    fn try_borrow(&self) -> bool {
        let borrowed =
            self.borrowed
                .compare_exchange(false, true, Ordering::Acquire, Ordering::Relaxed);
        borrowed.is_ok()
    }
}

/// A block of arena memory, which is freed when dropped.
pub(crate) struct Block {
    start: NonNull<u8>,
    bytes: usize,
    source: Source,
}

/// The origin of a block's memory: the global allocator, or huge pages of the system.
enum Source {
    Allocator(Layout),
    System(#[expect(dead_code, reason = "held for the memory it is")] Pages),
}

// SAFETY: a block is an address and a size; A2 guards its content.
unsafe impl Send for Block {}

impl Block {
    /// Allocates a block of `bytes` bytes from the global allocator.
    fn new(bytes: usize) -> Self {
        let layout = Layout::from_size_align(bytes, ALIGN)
            .expect("keys and values are under 4 GiB, blocks not much larger");
        // SAFETY: the layout is not of size zero: every entry and every block has some bytes.
        let start = unsafe { alloc(layout) };
        let Some(start) = NonNull::new(start) else {
            handle_alloc_error(layout)
        };
        Self::with(start, bytes, Source::Allocator(layout))
    }

    /// Allocates a block of the chunk size in huge pages, or in small ones if there are none.
    fn new_chunk() -> Self {
        match Pages::new(CHUNK_BYTES) {
            Some(pages) => Self::with(pages.start(), CHUNK_BYTES, Source::System(pages)),
            None => Self::new(CHUNK_BYTES),
        }
    }

    /// Creates a block over memory from `source`, which it owns.
    fn with(start: NonNull<u8>, bytes: usize, source: Source) -> Self {
        // The representations use the bits above.
        assert!(
            (start.addr().get() as u64) < 1 << ADDRESS_BITS,
            "processes that do not ask for more get addresses of 48 bits"
        );
        // `Region::bytes` recovers the pointer from the address.
        let _ = start.as_ptr().expose_provenance();
        Block {
            start,
            bytes,
            source,
        }
    }

    /// The size of the block in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Source::Allocator(layout) = self.source {
            // SAFETY: `new` got the block from `alloc` with this layout; a block cannot be copied.
            unsafe { dealloc(self.start.as_ptr(), layout) };
        }
    }
}

/// The entry counts, bytes and sequence number bounds of all inserts so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) entries: u64,
    pub(crate) deletions: u64,
    pub(crate) data_bytes: u64,
    /// The smallest sequence number; `None` without an entry.
    pub(crate) first_seqno: Option<SeqNo>,
    /// The largest sequence number, or 0.
    pub(crate) largest_seqno: SeqNo,
}

/// A concurrent arena (RocksDB: `ConcurrentArena`), which also counts the inserted entries.
pub(crate) struct Arena {
    block_bytes_max: usize,
    /// Whether blocks may be cut from chunks.
    has_chunks: bool,
    allocated: AtomicUsize,
    /// The unallocated bytes of the last chunk, which are part of `allocated`.
    uncut: AtomicUsize,
    /// Whether any entry was ever counted.
    counted: AtomicBool,
    /// A power of two of shards.
    shards: Box<[Padded<Shard>]>,
    blocks: Mutex<Blocks>,
    recycler: Option<Arc<Recycler>>,
    /// The caller's charge for the memory, dropped after the blocks.
    _charge: Option<Arc<dyn Any + Send + Sync>>,
}

/// All blocks and chunks of an arena, and the rest of the last chunk.
#[derive(Default)]
struct Blocks {
    all: Vec<Block>,
    chunk: Rest,
}

/// The unallocated end of a chunk.
struct Rest {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: A2 guards the rest of a chunk, like the whole.
unsafe impl Send for Rest {}

impl Default for Rest {
    fn default() -> Self {
        Rest {
            start: ptr::null_mut(),
            bytes: 0,
        }
    }
}

impl Rest {
    /// Cuts `bytes` bytes off the start of the rest; returns their address.
    fn cut(&mut self, bytes: usize) -> NonNull<u8> {
        debug_assert!(bytes <= self.bytes);
        let start = self.start;
        // SAFETY: there are `self.bytes` of one chunk at `start`, which are at least `bytes`.
        self.start = unsafe { start.add(bytes) };
        self.bytes -= bytes;
        NonNull::new(start).expect("where bytes are left, there is a chunk")
    }
}

impl Arena {
    /// Creates an empty arena of `shard_count` shards, a power of two.
    fn new(options: &MemtableOptions, shard_count: usize) -> Self {
        assert!(shard_count.is_power_of_two(), "lease() needs that");
        let shards: Box<[Padded<Shard>]> = (0..shard_count).map(|_| Padded::default()).collect();
        let block_bytes_max = options.arena_block_bytes.max(1 << 10);
        Arena {
            block_bytes_max: block_bytes_max.next_multiple_of(ALIGN),
            has_chunks: options.write_buffer_bytes >= CHUNKED_BUFFER_BYTES,
            uncut: AtomicUsize::new(0),
            allocated: AtomicUsize::new(size_of::<Self>() + size_of_val(&*shards)),
            counted: AtomicBool::new(false),
            shards,
            blocks: Mutex::default(),
            recycler: options.recycler.clone(),
            _charge: options.charge.clone(),
        }
    }

    /// The bytes that the arena took from the allocator and the system.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.allocated.load(Ordering::Relaxed)
    }

    /// The bytes of the last chunk from which no block was cut yet.
    pub(crate) fn uncut_bytes(&self) -> usize {
        self.uncut.load(Ordering::Relaxed)
    }

    /// The number of shards.
    pub(crate) fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// Borrows a free shard for allocations by this thread, preferably the thread's usual one.
    #[inline]
    pub(crate) fn lease(&self) -> Lease<'_> {
        let mut slot = thread_number();
        let count = self.shards.len();
        loop {
            let index = slot & (count - 1);
            let shard = &self.shards[index].0;
            if shard.try_borrow() {
                return Lease {
                    arena: self,
                    shard,
                    index,
                };
            }
            hint::spin_loop();
            slot += 1;
            if slot.is_multiple_of(4 * count) {
                yield_now();
            }
        }
    }

    /// Borrows the shard at `index`, after waiting for its current borrower.
    pub(crate) fn lease_of(&self, index: usize) -> Lease<'_> {
        let shard = &self.shards[index].0;
        while !shard.try_borrow() {
            yield_now();
        }
        Lease {
            arena: self,
            shard,
            index,
        }
    }

    /// The sums of the counters of all shards; exact while no insert is in progress.
    pub(crate) fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        let mut first_seqno = SeqNo::MAX;
        for Padded(shard) in self.shards.iter() {
            totals.entries += shard.entries.load(Ordering::Relaxed);
            totals.deletions += shard.deletions.load(Ordering::Relaxed);
            totals.data_bytes += shard.data_bytes.load(Ordering::Relaxed);
            first_seqno = first_seqno.min(shard.first_seqno.load(Ordering::Relaxed));
            totals.largest_seqno = totals
                .largest_seqno
                .max(shard.largest_seqno.load(Ordering::Relaxed));
        }
        totals.first_seqno = (first_seqno != SeqNo::MAX).then_some(first_seqno);
        totals
    }

    /// Whether no entry was ever inserted.
    ///
    /// Each read calls this: it loads one flag, not the counters, whose cache lines inserts move. A
    /// count is reverted only for a duplicate of an entry in the same memtable, which is then not
    /// empty.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        !self.counted.load(Ordering::Relaxed)
    }

    /// Fetches a block of `needed` to `wanted` bytes for a shard; returns its address and size.
    ///
    /// It is cut from a chunk, or allocated on its own with the wanted size.
    fn new_block(&self, needed: usize, wanted: usize) -> (NonNull<u8>, usize) {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        // A rest of a chunk that is too small is wasted: no more than a sixteenth.
        let is_cut = self.has_chunks
            && needed <= CHUNK_BYTES / 16
            && wanted <= CHUNK_BYTES / 2
            && self.allocated.load(Ordering::Relaxed) >= CHUNKS_FROM;
        if !is_cut {
            return (self.add_block(&mut blocks, wanted, Block::new), wanted);
        }
        if blocks.chunk.bytes < needed {
            let start = self.add_block(&mut blocks, CHUNK_BYTES, |_| Block::new_chunk());
            blocks.chunk = Rest {
                start: start.as_ptr(),
                bytes: CHUNK_BYTES,
            };
        }
        let bytes = wanted.min(blocks.chunk.bytes);
        let start = blocks.chunk.cut(bytes);
        self.uncut.store(blocks.chunk.bytes, Ordering::Relaxed);
        (start, bytes)
    }

    /// Adds a block of `bytes` bytes to the arena, from the recycler or else created by `make`.
    fn add_block(
        &self,
        blocks: &mut Blocks,
        bytes: usize,
        make: impl FnOnce(usize) -> Block,
    ) -> NonNull<u8> {
        let used = self.recycler.as_ref().and_then(|r| r.take_block(bytes));
        let block = used.unwrap_or_else(|| make(bytes));
        let start = block.start;
        blocks.all.push(block);
        self.allocated.fetch_add(bytes, Ordering::Relaxed);
        start
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let Some(recycler) = &self.recycler else {
            return;
        };
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = blocks.all.iter().map(Block::bytes).sum();
        recycler.give_blocks(blocks.all.drain(..), bytes);
    }
}

/// A guard for a borrowed shard, with the exclusive right to allocate from it and count entries.
pub(crate) struct Lease<'a> {
    arena: &'a Arena,
    shard: &'a Shard,
    index: usize,
}

impl Lease<'_> {
    /// The index of the borrowed shard.
    #[inline]
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Allocates `bytes` uninitialized bytes, aligned to 8, valid until the arena is dropped.
    #[inline]
    pub(crate) fn allocate(&mut self, bytes: usize) -> NonNull<u8> {
        self.allocate_from(&self.shard.near, bytes)
    }

    /// Allocates memory for a value stored apart from its key, in separate blocks.
    ///
    /// Memory that searches access thus stays close together.
    #[inline]
    pub(crate) fn allocate_far(&mut self, bytes: usize) -> NonNull<u8> {
        self.allocate_from(&self.shard.far, bytes)
    }

    /// Allocates `bytes` bytes, aligned, from a bump allocator, or from a new block if it is full.
    #[inline]
    fn allocate_from(&self, from: &Bump, bytes: usize) -> NonNull<u8> {
        let bytes = bytes.max(1).next_multiple_of(ALIGN);
        let free_bytes = from.free_bytes.load(Ordering::Relaxed);
        if bytes > free_bytes {
            return self.allocate_slow(from, bytes);
        }
        let start = from.free.load(Ordering::Relaxed);
        Self::bump(from, start, bytes, free_bytes)
    }

    /// Advances a bump allocator by `bytes`, of `free_bytes` at `start`; returns their address.
    #[inline]
    fn bump(from: &Bump, start: *mut u8, bytes: usize, free_bytes: usize) -> NonNull<u8> {
        debug_assert!(bytes <= free_bytes);
        if free_bytes - bytes >= AHEAD_BYTES {
            for line in (AHEAD_BYTES.max(bytes)..AHEAD_BYTES + bytes).step_by(LINE_BYTES) {
                prefetch(start.wrapping_add(line).cast());
            }
        }
        // SAFETY: there are `free_bytes` of one block at `start`, which are at least `bytes`.
        let rest = unsafe { start.add(bytes) };
        from.free.store(rest, Ordering::Relaxed);
        from.free_bytes.store(free_bytes - bytes, Ordering::Relaxed);
        NonNull::new(start).expect("where bytes are free, there is a block")
    }

    /// Allocates from a new block, which becomes the current one unless the allocation fills it.
    #[cold]
    fn allocate_slow(&self, from: &Bump, bytes: usize) -> NonNull<u8> {
        let bumps = self.arena.shards.iter();
        let bumps = bumps.flat_map(|Padded(shard)| [&shard.near, &shard.far]);
        let in_use =
            |bump: &&Bump| ptr::eq(*bump, from) || bump.block_bytes.load(Ordering::Relaxed) > 0;
        let bumps_in_use = bumps.filter(in_use).count();
        // The unused ends of all blocks together stay near one full block.
        let limit = self.arena.block_bytes_max / bumps_in_use.next_power_of_two();
        let so_far = from.block_bytes.load(Ordering::Relaxed);
        let block = so_far
            .max(FIRST_BLOCK_BYTES)
            .min(limit.next_multiple_of(ALIGN));
        let wanted = if bytes > block / 4 { bytes } else { block };
        let (start, fetched) = self.arena.new_block(bytes, wanted);
        from.block_bytes.store(so_far + fetched, Ordering::Relaxed);
        if fetched == bytes {
            return start;
        }
        Self::bump(from, start.as_ptr(), bytes, fetched)
    }

    /// Adds an entry of `data_bytes` bytes to the counters of the shard.
    #[inline]
    pub(crate) fn count(&mut self, seqno: SeqNo, value_type: ValueType, data_bytes: usize) {
        let shard = self.shard;
        if shard.entries.load(Ordering::Relaxed) == 0 {
            self.arena.counted.store(true, Ordering::Relaxed);
        }
        add(&shard.entries, 1);
        add(&shard.data_bytes, data_bytes as u64);
        if value_type.is_deletion() {
            add(&shard.deletions, 1);
        }
        if seqno < shard.first_seqno.load(Ordering::Relaxed) {
            shard.first_seqno.store(seqno, Ordering::Relaxed);
        }
        if seqno > shard.largest_seqno.load(Ordering::Relaxed) {
            shard.largest_seqno.store(seqno, Ordering::Relaxed);
        }
    }

    /// Subtracts a counted entry from the counters, as it turned out to be a duplicate.
    ///
    /// The sequence numbers stay: the existing entry has the same.
    pub(crate) fn discount(&mut self, value_type: ValueType, data_bytes: usize) {
        let shard = self.shard;
        add(&shard.entries, 1_u64.wrapping_neg());
        add(&shard.data_bytes, (data_bytes as u64).wrapping_neg());
        if value_type.is_deletion() {
            add(&shard.deletions, 1_u64.wrapping_neg());
        }
    }
}

impl Drop for Lease<'_> {
    #[inline]
    fn drop(&mut self) {
        self.shard.borrowed.store(false, Ordering::Release);
    }
}

/// An array with a value for each arena shard, which only the borrower of the shard accesses.
pub(crate) struct PerShard<T> {
    arena: Arc<Arena>,
    values: Box<[Padded<UnsafeCell<T>>]>,
}

// SAFETY: one lease holder after the other accesses a value, and taking a lease (acquire) sees what
// was done before it was returned (release).
unsafe impl<T: Send> Sync for PerShard<T> {}

impl<T> PerShard<T> {
    /// Creates a value for each shard of `arena` by calling `make` with the index of the shard.
    pub(crate) fn new(arena: &SharedArena, mut make: impl FnMut(usize) -> T) -> Self {
        let shards = 0..arena.arena.shard_count();
        PerShard {
            arena: Arc::clone(&arena.arena),
            values: shards.map(|at| Padded(UnsafeCell::new(make(at)))).collect(),
        }
    }

    /// The size of all values in bytes, without memory they own.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.values)
    }

    /// Calls `access` with the value of the borrowed shard; returns the result.
    #[inline]
    pub(crate) fn with<R>(&self, lease: &mut Lease<'_>, access: impl FnOnce(&mut T) -> R) -> R {
        assert!(
            ptr::eq(lease.arena, &raw const *self.arena),
            "the lease is of another arena"
        );
        self.values[lease.index].0.with_mut(|value| {
            // SAFETY: there is no other lease of this shard of this arena, and this one is borrowed
            // for the call.
            access(unsafe { &mut *value })
        })
    }
}

/// Adds `value` to a counter without an atomic read-modify-write: it has a single writer.
#[inline]
fn add(counter: &AtomicU64, value: u64) {
    let sum = counter.load(Ordering::Relaxed).wrapping_add(value);
    counter.store(sum, Ordering::Relaxed);
}

/// An adapter that lets pinned slices refer to values in an arena, which they keep alive.
struct ArenaRegion(
    #[expect(dead_code, reason = "held for the memory behind the addresses")] Arc<Arena>,
);

impl Region for ArenaRegion {
    fn bytes(&self, start: u64, len: u32) -> &[u8] {
        let address = ptr::with_exposed_provenance::<u8>(to_usize(start));
        // SAFETY: by A4 `start` and `len` describe part of the bytes passed to `pin`: initialized,
        // unchanging bytes in a block of this arena, whose provenance `new_block` exposed and which
        // A1 keeps in place.
        unsafe { std::slice::from_raw_parts(address, len as usize) }
    }
}

/// A reference-counted arena, shared by its memtable, cursors and pinned values.
#[derive(Clone)]
pub(crate) struct SharedArena {
    arena: Arc<Arena>,
    buffer: Arc<Buffer>,
    /// The value length from which a value is stored apart from its key.
    far_from: usize,
    /// The bytes of checksum behind each value.
    protection_bytes: usize,
}

impl SharedArena {
    /// Creates an empty arena for a memtable with these options.
    pub(crate) fn new(options: &MemtableOptions) -> Self {
        Self::with_shards(options, stripe_count())
    }

    /// Creates an empty arena of `shard_count` shards, a power of two.
    fn with_shards(options: &MemtableOptions, shard_count: usize) -> Self {
        let arena = Arc::new(Arena::new(options, shard_count));
        let buffer = Arc::new(Buffer::from_region(ArenaRegion(Arc::clone(&arena))));
        SharedArena {
            arena,
            buffer,
            far_from: usize::MAX,
            protection_bytes: options.protection_bytes,
        }
    }

    /// Creates an empty arena whose blocks have up to `block_bytes_max` bytes.
    #[cfg(test)]
    pub(crate) fn of_blocks(block_bytes_max: usize) -> Self {
        Self::of_shards(block_bytes_max, stripe_count())
    }

    /// Creates an empty arena with `shard_count` shards, regardless of the number of cores.
    #[cfg(test)]
    pub(crate) fn of_shards(block_bytes_max: usize, shard_count: usize) -> Self {
        let options = MemtableOptions {
            arena_block_bytes: block_bytes_max,
            write_buffer_bytes: 0,
            ..MemtableOptions::default()
        };
        Self::with_shards(&options, shard_count)
    }

    /// Sets the value length from which values are stored apart from their keys.
    ///
    /// It is to be set before the first entry is inserted.
    pub(crate) fn with_far_values(self, far_from: usize) -> Self {
        SharedArena { far_from, ..self }
    }

    /// Whether a value of `bytes` bytes is stored apart from its key.
    #[inline]
    pub(crate) fn is_far(&self, bytes: usize) -> bool {
        bytes >= self.far_from
    }

    /// The number of checksum bytes after each value (`memtable_protection_bytes_per_key`).
    #[inline]
    pub(crate) fn protection_bytes(&self) -> usize {
        self.protection_bytes
    }

    /// The underlying allocator.
    #[inline]
    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Returns a pinned slice of a value: a short one copied, a long one keeping the arena alive.
    ///
    /// # Safety
    /// `value` must lie in memory that this arena allocated, initialized and never writes again.
    #[inline]
    pub(crate) unsafe fn pin(&self, value: &[u8]) -> PinnedSlice {
        // A value of some bytes would hold an arena of megabytes.
        if value.len() <= COPIED_BYTES_MAX {
            return PinnedSlice::copy_of(value);
        }
        let len = u32::try_from(value.len()).expect("values are under 4 GiB");
        PinnedSlice::pin(&self.buffer, value.as_ptr().addr() as u64, len)
    }
}
