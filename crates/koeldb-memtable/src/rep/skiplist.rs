//! The default representation: a sorted linked list in the arena, with an index.
//!
//! It replaces RocksDB's skip list (`memtable/inlineskiplist.h`) and keeps its bottom level:
//! nothing is ever removed, an insert is one compare-and-swap, and a reader follows links with
//! acquire loads. [`Index`] replaces the upper levels: a search in towers misses the cache at each
//! of a dozen nodes, one in pages of hints at two or three. Nodes contain their entries.
//!
//! ```text
//! node = link to the next node: pointer ‖ entry
//! ```
//!
//! # Invariants
//! - **S1** A node is reached only through the head, a link or the index, by an acquire load of a
//!   pointer stored with release after the node was written; from then on only its link changes.
//! - **S2** Links change only by inserting a new node between two neighbours. The head has no
//!   entry, and no link leads to it.
//! - **S3** The list alone decides membership and order. The index names nodes of the list;
//!   comparing keys decides whether one is before a target.
#![expect(
    unsafe_code,
    reason = "a node with its entry inside costs one cache miss where boxes cost three"
)]

use std::array;
use std::cmp::Ordering as Order;
use std::iter;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use koeldb_base::key::footer_of;
use koeldb_base::{ArcRef, KeyOrder};

use super::Duplicate;
use super::entry::{Entry, EntryParts};
use super::index::{BATCH, Base, Guess, Index, Lookahead, Tree};
use crate::arena::SharedArena;

/// The number of nodes walked by a search above which it adds a node to the index.
const STEPS_MAX: usize = 12;

/// A list node: the link to the next node, which the encoded entry follows in memory.
#[repr(C)]
pub(super) struct Node {
    next: AtomicPtr<Node>,
}

const NODE_BYTES: usize = size_of::<Node>();

/// A reference to a list node or to the head (invariant S1 of the module).
#[derive(Clone, Copy)]
pub(super) struct NodeRef<'list> {
    node: NonNull<Node>,
    list: PhantomData<&'list SkipList>,
}

impl<'list> NodeRef<'list> {
    /// Converts a loaded link to a node reference; `None` for a null link.
    ///
    /// # Safety
    /// `node` must be null, or a node under S1 in an arena that lives for `'list`.
    #[inline]
    pub(super) unsafe fn new(node: *mut Node) -> Option<Self> {
        NonNull::new(node).map(|node| NodeRef {
            node,
            list: PhantomData,
        })
    }

    /// The node's address, for the index.
    #[inline]
    pub(super) fn address(self) -> *mut Node {
        self.node.as_ptr()
    }

    /// The atomic pointer to the next node.
    #[inline]
    fn link(self) -> &'list AtomicPtr<Node> {
        // SAFETY: every node begins with its link and lives as long as the arena (S1).
        &unsafe { self.node.as_ref() }.next
    }

    /// The next node; `None` at the end of the list.
    #[inline]
    fn next(self) -> Option<NodeRef<'list>> {
        let next = self.link().load(Ordering::Acquire);
        // SAFETY: the link was loaded with acquire (S1).
        unsafe { NodeRef::new(next) }
    }

    /// The address of the entry, which follows the link.
    #[inline]
    fn entry_start(self) -> NonNull<u8> {
        // SAFETY: the link of every node is followed by an entry in the same block.
        unsafe { self.node.cast::<u8>().add(NODE_BYTES) }
    }
}

/// The target of a list search: an internal key as user key and footer, and its index hint.
#[derive(Clone, Copy)]
pub(super) struct Target<'k> {
    user_key: &'k [u8],
    footer: u64,
    pub(super) hint: u64,
}

/// A concurrent sorted list with an index, in place of RocksDB's skip list.
///
/// Any number of threads may insert and read concurrently.
pub(crate) struct SkipList {
    order: KeyOrder,
    arena: SharedArena,
    index: Index,
    /// The number of nodes that a search must walk past before the list gets an index.
    index_after: usize,
    head: Node,
}

impl SkipList {
    /// Creates an empty list in `arena`, indexed once a search walks past `index_after` nodes.
    pub(crate) fn new(order: KeyOrder, arena: SharedArena, index_after: usize) -> Self {
        SkipList {
            order,
            arena,
            index: Index::default(),
            index_after,
            head: Node {
                next: AtomicPtr::new(ptr::null_mut()),
            },
        }
    }

    /// The head of the list, a node without entry.
    #[inline]
    fn head(&self) -> NodeRef<'_> {
        NodeRef {
            node: NonNull::from(&self.head),
            list: PhantomData,
        }
    }

    /// The entry of a node other than the head.
    #[inline]
    fn entry<'list>(&'list self, node: NodeRef<'list>) -> Entry<'list> {
        // SAFETY: nodes other than the head, which no link leads to, carry an entry written before
        // S1 made them visible, in this arena.
        unsafe { Entry::new(node.entry_start(), &self.arena) }
    }

    /// Compares the entry of `node` with the target.
    #[inline]
    fn compare(&self, node: NodeRef<'_>, target: &Target<'_>) -> Order {
        let (user_key, footer) = self.entry(node).user_key_and_footer();
        self.order
            .compare(user_key, target.user_key)
            .then_with(|| target.footer.cmp(&footer))
    }

    /// Creates a search target, with the hint of its key in the index, if there is one.
    #[inline]
    fn target<'k>(&self, tree: Option<&Tree>, user_key: &'k [u8], footer: u64) -> Target<'k> {
        Target {
            user_key,
            footer,
            hint: tree.map_or(0, |tree| tree.hint(&self.order, user_key)),
        }
    }

    /// Returns a search target at or before a node: before any type with its sequence number.
    pub(super) fn target_of<'list>(
        &'list self,
        node: NodeRef<'list>,
        tree: &Tree,
    ) -> Target<'list> {
        let (user_key, footer) = self.entry(node).user_key_and_footer();
        self.target(Some(tree), user_key, footer | 0xff)
    }

    /// All nodes in order.
    pub(super) fn nodes(&self) -> impl Iterator<Item = NodeRef<'_>> {
        iter::successors(self.head().next(), |node| node.next())
    }

    /// All entries in order.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.nodes().map(|node| self.entry(node))
    }

    /// Returns the hint base that suits the keys in the list: their common prefix less two bytes.
    pub(super) fn base_of_all(&self) -> Base {
        let user_key = |node| self.entry(node).user_key_and_footer().0;
        match (self.head().next(), self.last()) {
            (Some(first), Some(last)) => {
                Base::between(&self.order, user_key(first), user_key(last))
            }
            _ => Base::EMPTY,
        }
    }

    /// Whether the entry of a node sorts before the target.
    #[inline]
    pub(super) fn is_before(&self, node: NodeRef<'_>, target: &Target<'_>) -> bool {
        self.compare(node, target).is_lt()
    }

    /// Allocates memory for a node or a page of the index.
    pub(super) fn allocate(&self, bytes: usize) -> NonNull<u8> {
        self.arena.arena().lease().allocate(bytes)
    }

    /// Creates a search target and looks up its guessed position in the index, if there is one.
    #[inline]
    fn guess<'list, 'k>(
        &'list self,
        user_key: &'k [u8],
        footer: u64,
    ) -> (Target<'k>, Option<Guess<'list>>) {
        let tree = self.index.tree();
        let target = self.target(tree, user_key, footer);
        let guess = tree.map(|tree| tree.guess(self, &target));
        if let Some(guess) = guess {
            guess.prefetch_neighbours();
        }
        (target, guess)
    }

    /// Returns a node before the target to start from: the guessed one if valid, else the head.
    #[inline]
    fn start<'list>(
        &'list self,
        guess: Option<Guess<'list>>,
        target: &Target<'_>,
    ) -> NodeRef<'list> {
        guess
            .and_then(|guess| guess.before())
            .filter(|&before| self.is_before(before, target))
            .unwrap_or_else(|| self.head())
    }

    /// Walks the list from `node` to the last node before the target; returns it and its successor.
    ///
    /// `node` is before the target. A long walk adds a node to the index.
    #[inline]
    fn walk<'list>(
        &'list self,
        mut node: NodeRef<'list>,
        guess: Option<Guess<'list>>,
        target: &Target<'_>,
    ) -> (NodeRef<'list>, Option<NodeRef<'list>>) {
        let mut steps = 0;
        loop {
            match node.next() {
                Some(next) if self.is_before(next, target) => node = next,
                next => return (node, next),
            }
            steps += 1;
            if steps % STEPS_MAX == 0 && (guess.is_some() || steps >= self.index_after) {
                self.index.insert(guess, self, node);
            }
        }
    }

    /// Searches for an internal key; returns the nodes before and after its position.
    #[inline]
    fn search<'list>(&'list self, internal_key: &[u8]) -> Found<'list> {
        let (user_key, footer) = footer_of(internal_key);
        let (target, guess) = self.guess(user_key, footer);
        let (before, node) = self.walk(self.start(guess, &target), guess, &target);
        Found {
            before,
            node,
            guess,
        }
    }

    /// The last node of the list; `None` if the list is empty.
    fn last(&self) -> Option<NodeRef<'_>> {
        let indexed = self.index.tree().and_then(Tree::last);
        let mut node = indexed.unwrap_or_else(|| self.head());
        while let Some(next) = node.next() {
            node = next;
        }
        self.not_head(node)
    }

    /// Returns `node`, or `None` if it is the head.
    #[inline]
    fn not_head<'list>(&'list self, node: NodeRef<'list>) -> Option<NodeRef<'list>> {
        (!ptr::eq(node.node.as_ptr(), &raw const self.head)).then_some(node)
    }

    /// Inserts an entry.
    ///
    /// # Errors
    /// If there is an entry of the same user key and sequence number, of any type.
    pub(crate) fn insert(&self, parts: &EntryParts<'_>) -> Result<(), Duplicate> {
        // Sorts before all types of this sequence number: any entry there is a duplicate.
        let (target, guess) = self.guess(parts.user_key, parts.footer() | 0xff);
        // Overlaps with the cache misses of the neighbours.
        let node = self.make_node(parts);

        let mut before = self.start(guess, &target);
        loop {
            let (last_before, next) = self.walk(before, guess, &target);
            if next.is_some_and(|next| self.is_duplicate(next, parts)) {
                let mut lease = self.arena.arena().lease();
                lease.discount(parts.value_type, parts.encoded_len());
                return Err(Duplicate);
            }
            before = last_before;
            let next = next.map_or(ptr::null_mut(), |next| next.node.as_ptr());
            node.link().store(next, Ordering::Relaxed);
            let linked = before.link().compare_exchange(
                next,
                node.node.as_ptr(),
                Ordering::Release,
                Ordering::Relaxed,
            );
            if linked.is_ok() {
                break;
            }
        }
        if guess.is_some() || self.index_after == 0 {
            self.index.insert(guess, self, node);
        }
        Ok(())
    }

    /// Allocates and writes a node with an entry, not linked yet, and counts the entry.
    #[inline]
    fn make_node(&self, parts: &EntryParts<'_>) -> NodeRef<'_> {
        let encoded_len = parts.encoded_len();
        let start = {
            let mut lease = self.arena.arena().lease();
            lease.count(parts.seqno, parts.value_type, encoded_len);
            lease.allocate(NODE_BYTES + encoded_len)
        };
        let node = start.cast::<Node>();
        let empty = Node {
            next: AtomicPtr::new(ptr::null_mut()),
        };
        // SAFETY: this call alone owns the memory (A2), which is aligned to 8 and larger than a
        // node.
        unsafe { node.write(empty) };
        let node = NodeRef {
            node,
            list: PhantomData,
        };
        // SAFETY: the entry fills the rest of the memory.
        unsafe { parts.write(node.entry_start()) };
        node
    }

    /// Whether a node has the user key and sequence number of a new entry.
    fn is_duplicate(&self, node: NodeRef<'_>, parts: &EntryParts<'_>) -> bool {
        let (user_key, footer) = self.entry(node).user_key_and_footer();
        footer >> 8 == parts.seqno && self.order.compare(user_key, parts.user_key).is_eq()
    }

    /// Returns the entries from the first one at or after an internal key on.
    #[inline]
    pub(crate) fn entries_from(&self, internal_key: &[u8]) -> SkipListEntries<'_> {
        let found = self.search(internal_key);
        SkipListEntries {
            list: self,
            node: found.node,
        }
    }

    /// Runs [`entries_from`](Self::entries_from) for up to [`BATCH`] internal keys together.
    ///
    /// The cache misses of the searches overlap.
    pub(crate) fn entries_from_batch<'list>(
        &'list self,
        internal_keys: &[&[u8]],
    ) -> [SkipListEntries<'list>; BATCH] {
        let tree = self.index.tree();
        let mut targets = [self.target(None, b"", 0); BATCH];
        for (target, internal_key) in targets.iter_mut().zip(internal_keys) {
            let (user_key, footer) = footer_of(internal_key);
            *target = self.target(tree, user_key, footer);
        }
        let targets = &targets[..internal_keys.len()];
        let guesses = tree.map(|tree| tree.guess_batch(self, targets));
        array::from_fn(|at| {
            let node = targets.get(at).and_then(|target| {
                let guess = guesses.map(|guesses| guesses[at]);
                self.walk(self.start(guess, target), guess, target).1
            });
            SkipListEntries { list: self, node }
        })
    }

    /// Whether a node has this internal key.
    fn is_at(&self, node: NodeRef<'_>, internal_key: &[u8]) -> bool {
        let key = self.entry(node).key();
        self.order.compare_internal(key, internal_key).is_eq()
    }

    /// The arena of the entries.
    #[inline]
    pub(crate) fn arena(&self) -> &SharedArena {
        &self.arena
    }
}

/// The result of a list search: the nodes before and at or after the target, and the guess.
struct Found<'list> {
    before: NodeRef<'list>,
    node: Option<NodeRef<'list>>,
    guess: Option<Guess<'list>>,
}

/// An iterator over list entries in key order, which includes later inserts.
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

/// A cursor over a sorted list, which sees later inserts.
pub(crate) struct SkipListCursor<'m> {
    list: ArcRef<'m, SkipList>,
    node: Option<NonNull<Node>>,
    ahead: Lookahead,
    /// The number of steps forward that a seek tries before it uses the index.
    lookahead: usize,
}

// SAFETY: the list is `Send + Sync`; node and page are its own, which any thread may read (S1, I1).
unsafe impl Send for SkipListCursor<'_> {}

// SAFETY: shared references only read the node, which does not change once it is published (S1).
unsafe impl Sync for SkipListCursor<'_> {}

impl<'m> SkipListCursor<'m> {
    /// Creates an unpositioned cursor whose seeks first try `lookahead` steps forward.
    pub(crate) fn new(list: ArcRef<'m, SkipList>, lookahead: usize) -> Self {
        SkipListCursor {
            list,
            node: None,
            ahead: Lookahead::NONE,
            lookahead,
        }
    }

    /// The current node; `None` if the cursor is not valid.
    #[inline]
    fn node(&self) -> Option<NodeRef<'_>> {
        self.node.map(|node| NodeRef {
            node,
            list: PhantomData,
        })
    }

    /// The current entry; `None` if the cursor is not valid.
    #[inline]
    pub(crate) fn entry(&self) -> Option<Entry<'_>> {
        self.node().map(|node| self.list.entry(node))
    }

    /// Invalidates the position; nothing else is needed, as the cursor sees all inserts.
    pub(crate) fn refresh(&mut self) {
        self.node = None;
    }

    pub(crate) fn seek_to_first(&mut self) {
        self.ahead = Lookahead::new(self.list.index.tree().map(Tree::first));
        self.node = self.list.head().next().map(|node| node.node);
    }

    pub(crate) fn seek_to_last(&mut self) {
        self.ahead = Lookahead::NONE;
        self.node = self.list.last().map(|node| node.node);
    }

    pub(crate) fn seek(&mut self, internal_key: &[u8]) {
        if self.lookahead > 0 && self.seek_near(internal_key) {
            return;
        }
        let found = self.list.search(internal_key);
        self.ahead = Lookahead::new(found.guess);
        self.node = found.node.map(|node| node.node);
    }

    /// Seeks an internal key by stepping forward a few nodes; false if it is not that close.
    fn seek_near(&mut self, internal_key: &[u8]) -> bool {
        let (user_key, footer) = footer_of(internal_key);
        let target = self.list.target(None, user_key, footer);
        let Some(mut node) = self.node() else {
            return false;
        };
        for _ in 0..self.lookahead {
            if !self.list.is_before(node, &target) {
                return false;
            }
            match node.next() {
                Some(next) if self.list.is_before(next, &target) => node = next,
                next => {
                    self.node = next.map(|next| next.node);
                    self.ahead = Lookahead::NONE;
                    return true;
                }
            }
        }
        false
    }

    pub(crate) fn seek_for_prev(&mut self, internal_key: &[u8]) {
        self.ahead = Lookahead::NONE;
        let found = self.list.search(internal_key);
        self.node = match found.node {
            Some(node) if self.list.is_at(node, internal_key) => Some(node.node),
            _ => self.list.not_head(found.before).map(|node| node.node),
        };
    }

    #[inline]
    pub(crate) fn next(&mut self) {
        let next = self.node().and_then(NodeRef::next);
        self.node = next.map(|node| node.node);
        // SAFETY: the cursor holds or borrows the list that its positions come from.
        unsafe { self.ahead.step() };
    }

    pub(crate) fn prev(&mut self) {
        let Some(entry) = self.entry() else { return };
        let found = self.list.search(entry.key());
        self.node = self.list.not_head(found.before).map(|node| node.node);
        self.ahead = Lookahead::NONE;
    }
}

#[cfg(test)]
mod tests;
