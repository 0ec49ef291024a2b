//! Memory in huge pages.
//!
//! A lookup accesses random places of the whole memtable. With 4 KiB pages each access also waits
//! for address translation, and the system clears each page separately; a huge page replaces 512 of
//! them.

use std::ptr::NonNull;

/// The size and alignment of a huge page.
pub(crate) const HUGE_BYTES: usize = 2 << 20;

/// Zeroed memory in huge pages, as far as the system provides them; unmapped when dropped.
pub(crate) struct Pages {
    #[cfg(all(target_os = "linux", not(miri)))]
    _map: memmap2::MmapMut,
    start: NonNull<u8>,
}

impl Pages {
    /// Allocates `bytes` zeroed bytes aligned to [`HUGE_BYTES`]; `None` if there is no such memory.
    #[cfg(all(target_os = "linux", not(miri)))]
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        // The memory around the aligned part is never touched, and so takes no space.
        let mut map = memmap2::MmapMut::map_anon(bytes.checked_add(HUGE_BYTES)?).ok()?;
        // If there are no huge pages, small ones serve as well.
        let _ = map.advise(memmap2::Advice::HugePage);
        let first = map.as_mut_ptr();
        let start = first.wrapping_add(first.align_offset(HUGE_BYTES));
        Some(Pages {
            _map: map,
            start: NonNull::new(start)?,
        })
    }

    /// Returns `None`: huge pages are not used on this system.
    #[cfg(not(all(target_os = "linux", not(miri))))]
    pub(crate) fn new(_bytes: usize) -> Option<Self> {
        None
    }

    /// A pointer to the first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

/// Creates an empty vector with room for `capacity` elements, in huge pages if it is large.
pub(crate) fn vec_for<T>(capacity: usize) -> Vec<T> {
    let vec: Vec<T> = Vec::with_capacity(capacity);
    #[cfg(all(target_os = "linux", not(miri)))]
    if capacity * size_of::<T>() >= 2 * HUGE_BYTES {
        let start = vec.as_ptr().cast::<std::ffi::c_void>().cast_mut();
        let page = start.wrapping_byte_add(start.cast::<u8>().align_offset(HUGE_BYTES));
        let whole = (vec.capacity() * size_of::<T>() - (page.addr() - start.addr())) / HUGE_BYTES;
        // SAFETY: whole pages of memory that is the vector's; the advice changes nothing in them.
        // If there are no huge pages, small ones serve as well.
        let _ = unsafe {
            rustix::mm::madvise(page, whole * HUGE_BYTES, rustix::mm::Advice::LinuxHugepage)
        };
    }
    vec
}
