//! The index of a sorted list: a B-link tree that leads close to any target.
//!
//! The list alone determines its content; the index only *guesses* a node shortly before a target.
//! It may lack nodes and lag behind, and the caller verifies its guess, so a search never waits and
//! never repeats a guess. Writers of the index exclude each other by try-locks: a writer that finds
//! one taken leaves its node out. A search that has to walk past many nodes adds one.
//!
//! It is a B-link tree (Lehman and Yao, 1981) without removal. A page holds up to [`SLOTS`] slots
//! in order:
//!
//! ```text
//! slot of a leaf page   = hint: u64 ‖ node
//! slot of an inner page = hint: u64 ‖ page one level below
//! ```
//!
//! A hint is eight bytes of a key as a number, so most comparisons touch only the page. The tree
//! determines which eight: those after a *base* that the keys had in common when the tree was
//! built. While the list is small, the tree is rebuilt if its keys no longer share the base or
//! share more. The new tree may lack nodes inserted during the rebuild.
//!
//! # Invariants
//! - **I1** A tree is reached through the index, and a page through the root, a slot or `right`, by
//!   an acquire load of a pointer stored with release after the tree or page was filled. All live
//!   as long as the arena.
//! - **I2** Only the holder of its lock changes a leaf, and only the holder of the structure lock
//!   an inner page; splitting a leaf requires both.
//! - **I3** The key in a slot only decreases: an insert shifts slots towards the end, and a split
//!   leaves the slots after the new count unchanged. The item is stored before its hint, and read
//!   after it, so the key of an item read is never above the hint read before it.
//! - **I4** All hints in a tree are made with its base.
//! - **I5** The low node of a page never changes; keys at or after the low node of `right` belong
//!   to the right page. The leftmost page of a level also covers everything below its low node.
#![expect(
    unsafe_code,
    reason = "pages lie in the arena and lead to each other and to nodes by address"
)]

mod hint;
mod lookahead;
mod page;

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use koeldb_base::KeyOrder;

pub(super) use hint::Base;
pub(super) use lookahead::Lookahead;
use page::{LINE, Page, SLOTS};

use super::prefetch;
use super::skiplist::{Node, NodeRef, SkipList, Target};

/// The number of slots filled in a page that is built for an existing list.
const SLOTS_BUILT: usize = 21;
/// The level up to which a tree is rebuilt: a higher one would delay an insert for milliseconds.
const REBUILT_LEVEL_MAX: u32 = 3;
/// The number of searches that are interleaved.
///
/// Enough to keep the memory system busy, few enough to stay in the L1 cache.
pub(crate) const BATCH: usize = 16;

/// A guessed list position near a search target: a leaf page and a slot position in it.
///
/// The position is the number of slots of the page before the target.
#[derive(Clone, Copy)]
pub(super) struct Guess<'list> {
    tree: &'list Tree,
    page: &'list Page,
    position: usize,
}

impl<'list> Guess<'list> {
    /// The last indexed list node before the target; `None` if the page has none.
    #[inline]
    pub(super) fn before(self) -> Option<NodeRef<'list>> {
        self.page.node(self.position.checked_sub(1)?)
    }

    /// Tries to lock the leaf page against index writers, as an interrupted writer would.
    #[cfg(test)]
    pub(super) fn try_lock_page(self) -> bool {
        self.page.try_lock()
    }

    /// Releases the lock that [`try_lock_page`](Self::try_lock_page) took.
    #[cfg(test)]
    pub(super) fn unlock_page(self) {
        self.page.unlock();
    }

    /// Prefetches the list nodes on both sides of the guessed position.
    #[inline]
    pub(super) fn prefetch_neighbours(self) {
        let before = self.position.saturating_sub(1);
        for slot in self.page.slots.iter().skip(before).take(2) {
            prefetch(slot.item.load(Ordering::Relaxed).cast());
        }
    }
}

/// A B-link tree of index pages over a sorted list.
///
/// Its slots hold key hints that skip one base, a common key prefix.
pub(super) struct Tree {
    base: Base,
    root: AtomicPtr<Page>,
    /// Whether the structure lock is held, which guards inner pages, splits and the root.
    growing: AtomicBool,
}

impl Tree {
    /// Returns the hint of a key: the eight bytes after the common prefix, as a number.
    #[inline]
    pub(super) fn hint(&self, order: &KeyOrder, user_key: &[u8]) -> u64 {
        self.base.hint(order, user_key)
    }

    /// Converts a loaded page pointer to a reference; `None` for a null pointer.
    ///
    /// # Safety
    /// `page` must be null or have been loaded under I1, from an index whose arena lives for
    /// `'list`.
    #[inline]
    unsafe fn page<'list>(page: *mut Page) -> Option<&'list Page> {
        // SAFETY: by the contract; pages are changed through atomics alone.
        unsafe { page.as_ref() }
    }

    /// Loads the root page.
    #[inline]
    fn root(&self) -> &Page {
        let root = self.root.load(Ordering::Acquire);
        // SAFETY: the root was loaded with acquire (I1).
        unsafe { Self::page(root) }.expect("a tree has a root")
    }

    /// Returns the child page in slot `index` of an inner page.
    #[inline]
    fn child<'list>(&'list self, page: &'list Page, index: usize) -> &'list Page {
        debug_assert!(page.level > 0);
        let child = page.item(index).cast::<Page>();
        // SAFETY: slots of inner pages below the count hold pages, loaded with acquire (I1).
        unsafe { Self::page(child) }.expect("slots below the count are filled")
    }

    /// Finds the slot position of a target in a page, or in one of the pages to its right.
    #[inline]
    fn position<'list>(
        &'list self,
        mut page: &'list Page,
        list: &SkipList,
        target: &Target<'_>,
    ) -> Guess<'list> {
        loop {
            let count = page.count();
            let mut position = page.hints_below(count, target.hint, false);
            if position < count && page.hint(position) == target.hint {
                position = self.position_in_tie(page, count, position, list, target);
            }
            if position < count {
                return Guess {
                    tree: self,
                    page,
                    position,
                };
            }
            let right = page.right.load(Ordering::Acquire);
            // SAFETY: the link was loaded with acquire (I1).
            match unsafe { Self::page(right) } {
                Some(right) if self.low_is_before(right, list, target) => page = right,
                _ => {
                    return Guess {
                        tree: self,
                        page,
                        position,
                    };
                }
            }
        }
    }

    /// Finds the slot position of a target among slots with an equal hint, by comparing keys.
    #[cold]
    fn position_in_tie(
        &self,
        page: &Page,
        count: usize,
        mut first: usize,
        list: &SkipList,
        target: &Target<'_>,
    ) -> usize {
        let mut end = page.hints_below(count, target.hint, true);
        while first < end {
            let middle = first.midpoint(end);
            let node = match page.level {
                0 => page.node(middle),
                _ => Some(self.child(page, middle).low()),
            };
            if node.is_some_and(|node| list.is_before(node, target)) {
                first = middle + 1;
            } else {
                end = middle;
            }
        }
        first
    }

    /// Whether the low key of a page, its lower bound, is before the target.
    #[inline]
    fn low_is_before(&self, page: &Page, list: &SkipList, target: &Target<'_>) -> bool {
        page.low_hint < target.hint
            || (page.low_hint == target.hint && list.is_before(page.low(), target))
    }

    /// Descends to the page at `level` that covers the target; `None` if there is no such level.
    #[inline]
    fn descend<'list>(
        &'list self,
        level: u32,
        list: &SkipList,
        target: &Target<'_>,
    ) -> Option<Guess<'list>> {
        let mut page = self.root();
        if page.level < level {
            return None;
        }
        loop {
            let guess = self.position(page, list, target);
            if page.level == level {
                return Some(guess);
            }
            let index = guess.position - 1;
            Page::prefetch(guess.page.item(index).cast());
            page = self.child(guess.page, index);
        }
    }

    /// Descends to the leaf page of a target; returns the guessed list position before it.
    #[inline]
    pub(super) fn guess(&self, list: &SkipList, target: &Target<'_>) -> Guess<'_> {
        self.descend(0, list, target)
            .expect("a tree has a level of leaves")
    }

    /// Guesses the list positions of up to [`BATCH`] targets together.
    ///
    /// The searches descend together, so that the cache misses of one overlap with work on the
    /// others.
    pub(super) fn guess_batch<'list>(
        &'list self,
        list: &SkipList,
        targets: &[Target<'_>],
    ) -> [Guess<'list>; BATCH] {
        let root = self.root();
        let start = Guess {
            tree: self,
            page: root,
            position: 0,
        };
        let mut guesses = [start; BATCH];
        for level in (0..=root.level).rev() {
            for (guess, target) in guesses.iter_mut().zip(targets) {
                *guess = self.position(guess.page, list, target);
                if level > 0 {
                    let index = guess.position - 1;
                    Page::prefetch(guess.page.item(index).cast());
                    guess.page = self.child(guess.page, index);
                }
            }
        }
        for guess in &guesses[..targets.len()] {
            guess.prefetch_neighbours();
        }
        guesses
    }

    /// Returns the guess for the start of the list: the first slot of the leftmost leaf.
    pub(super) fn first(&self) -> Guess<'_> {
        let mut page = self.root();
        while page.level > 0 {
            page = self.child(page, 0);
        }
        Guess {
            tree: self,
            page,
            position: 0,
        }
    }

    /// The last indexed list node; `None` if there is none.
    pub(super) fn last(&self) -> Option<NodeRef<'_>> {
        let mut page = self.root();
        loop {
            let right = page.right.load(Ordering::Acquire);
            // SAFETY: the link was loaded with acquire (I1).
            if let Some(right) = unsafe { Self::page(right) } {
                page = right;
            } else if page.level > 0 {
                page = self.child(page, page.count() - 1);
            } else {
                return page.node(page.count() - 1);
            }
        }
    }

    /// Inserts a list node into the leaf `page` or one to its right; gives up if that is locked.
    fn insert<'list>(&'list self, mut page: &'list Page, list: &SkipList, node: NodeRef<'_>) {
        let target = &list.target_of(node, self);
        loop {
            if !page.try_lock() {
                return;
            }
            let guess = self.position(page, list, target);
            if ptr::eq(guess.page, page) {
                self.insert_locked(guess, list, target, node);
                page.unlock();
                return;
            }
            page.unlock();
            page = guess.page;
        }
    }

    /// Inserts a list node into a locked leaf page; splits a full one unless a split is running.
    fn insert_locked(
        &self,
        guess: Guess<'_>,
        list: &SkipList,
        target: &Target<'_>,
        node: NodeRef<'_>,
    ) {
        let Guess { page, position, .. } = guess;
        let item = node.address().cast();
        if position < page.count() && page.item(position) == item {
            return;
        }
        if page.count() < SLOTS {
            page.put(position, target.hint, item);
        } else if !self.growing.swap(true, Ordering::Acquire) {
            let right = self.split(guess, list, target.hint, item, node.address());
            self.add_to_parent(list, right);
            self.growing.store(false, Ordering::Release);
        }
    }

    /// Splits a full page and inserts an item into one of the halves; returns the new right page.
    fn split<'list>(
        &'list self,
        guess: Guess<'list>,
        list: &SkipList,
        hint: u64,
        item: *mut u8,
        item_low: *mut Node,
    ) -> &'list Page {
        let Guess { page, position, .. } = guess;
        // Ascending keys fill page after page; others leave room on both sides.
        let at_end = position == SLOTS && page.right.load(Ordering::Relaxed).is_null();
        let middle = if at_end { SLOTS } else { SLOTS / 2 };
        let (low, low_hint) = if at_end {
            (item_low, hint)
        } else if page.level == 0 {
            (page.item(middle).cast(), page.hint(middle))
        } else {
            (self.child(page, middle).low, page.hint(middle))
        };
        let right = Page::new(page.level, low, low_hint);
        for index in middle..SLOTS {
            right.put(index - middle, page.hint(index), page.item(index));
        }
        if position > middle || at_end {
            right.put(position - middle, hint, item);
        }
        let next = page.right.load(Ordering::Relaxed);
        right.right.store(next, Ordering::Relaxed);
        let right = allocate(list, right);
        page.right.store(right, Ordering::Release);
        page.set_count(middle);
        if position <= middle && !at_end {
            page.put(position, hint, item);
        }
        // SAFETY: the page was just created.
        unsafe { Self::page(right) }.expect("a page was allocated")
    }

    /// Adds a page created by a split to its parent page, which it creates or splits if needed.
    ///
    /// The structure lock is held.
    fn add_to_parent<'list>(&'list self, list: &SkipList, mut right: &'list Page) {
        loop {
            let target = list.target_of(right.low(), self);
            let address = ptr::from_ref(right).cast_mut().cast::<u8>();
            let Some(guess) = self.descend(right.level + 1, list, &target) else {
                let left = self.root();
                let root = Page::new(right.level + 1, left.low, left.low_hint);
                root.put(0, left.low_hint, ptr::from_ref(left).cast_mut().cast());
                root.put(1, right.low_hint, address);
                self.root.store(allocate(list, root), Ordering::Release);
                return;
            };
            if guess.page.count() < SLOTS {
                guess.page.put(guess.position, right.low_hint, address);
                return;
            }
            right = self.split(guess, list, right.low_hint, address, right.low);
        }
    }

    /// Builds an index tree over all nodes of a list; `None` if the list is empty.
    fn build(list: &SkipList) -> Option<Tree> {
        let mut tree = Tree {
            base: list.base_of_all(),
            root: AtomicPtr::new(ptr::null_mut()),
            growing: AtomicBool::new(false),
        };
        let mut items: Vec<(u64, *mut u8, *mut Node)> = list
            .nodes()
            .map(|node| {
                let hint = list.target_of(node, &tree).hint;
                (hint, node.address().cast(), node.address())
            })
            .collect();
        let mut level = 0;
        while level == 0 || items.len() > 1 {
            items = Self::build_level(list, level, &items);
            level += 1;
        }
        let &(_, root, _) = items.first()?;
        tree.root = AtomicPtr::new(root.cast());
        Some(tree)
    }

    /// Builds the pages of one tree level for `items`; returns them as items of the level above.
    fn build_level(
        list: &SkipList,
        level: u32,
        items: &[(u64, *mut u8, *mut Node)],
    ) -> Vec<(u64, *mut u8, *mut Node)> {
        let mut pages = Vec::with_capacity(items.len().div_ceil(SLOTS_BUILT));
        let mut right = ptr::null_mut();
        for chunk in items.rchunks(SLOTS_BUILT) {
            let (low_hint, _, low) = chunk[0];
            let page = Page::new(level, low, low_hint);
            for (position, &(hint, item, _)) in chunk.iter().enumerate() {
                page.put(position, hint, item);
            }
            page.right.store(right, Ordering::Relaxed);
            right = allocate(list, page);
            pages.push((low_hint, right.cast(), low));
        }
        pages.reverse();
        pages
    }
}

/// Moves a page or tree into cache-line-aligned memory of the list's arena.
fn allocate<T>(list: &SkipList, value: T) -> *mut T {
    const { assert!(align_of::<T>() <= LINE && !std::mem::needs_drop::<T>()) };
    let start = list.allocate(size_of::<T>() + LINE - 8);
    let padding = start.as_ptr().align_offset(LINE);
    // SAFETY: the memory is aligned to 8, so the padding is at most what was requested beyond the
    // value.
    let start = unsafe { start.add(padding) }.cast::<T>();
    // SAFETY: this call alone owns the memory, which is large enough and aligned.
    unsafe { start.write(value) };
    start.as_ptr()
}

/// The index of a sorted list: the current B-link tree, which may be rebuilt.
#[derive(Default)]
pub(super) struct Index {
    tree: AtomicPtr<Tree>,
    building: AtomicBool,
}

impl Index {
    /// The current index tree; `None` while no node is indexed.
    #[inline]
    pub(super) fn tree(&self) -> Option<&Tree> {
        let tree = self.tree.load(Ordering::Acquire);
        // SAFETY: it is null or a tree stored with release, which lives as long as the arena (I1).
        unsafe { tree.as_ref() }
    }

    /// Adds a list node to the index; gives up if its page is locked.
    ///
    /// `near` is a guess for the node or a predecessor.
    #[inline]
    pub(super) fn insert(&self, near: Option<Guess<'_>>, list: &SkipList, node: NodeRef<'_>) {
        let Some(tree) = self.tree() else {
            self.rebuild(list, ptr::null());
            return;
        };
        let level = tree.root().level;
        match near {
            Some(guess) if ptr::eq(guess.tree, tree) => tree.insert(guess.page, list, node),
            _ => {
                let guess = tree.guess(list, &list.target_of(node, tree));
                tree.insert(guess.page, list, node);
            }
        }
        if level < REBUILT_LEVEL_MAX && tree.root().level > level && list.base_of_all() != tree.base
        {
            self.rebuild(list, tree);
        }
    }

    /// Builds a new index tree to replace `old`, unless another thread does so.
    #[cold]
    fn rebuild(&self, list: &SkipList, old: *const Tree) {
        if self.building.swap(true, Ordering::Acquire) {
            return;
        }
        if ptr::eq(self.tree.load(Ordering::Acquire), old)
            && let Some(tree) = Tree::build(list)
        {
            self.tree.store(allocate(list, tree), Ordering::Release);
        }
        self.building.store(false, Ordering::Release);
    }
}
