//! Memory in huge pages of the system's.
//!
//! A look-up jumps through all of a memtable. In pages of four kilobytes each jump also waits for the address to be
//! translated, and each page for the system to clear it alone; a huge page takes the place of 512.

use std::ptr::NonNull;

/// The size and alignment of a huge page.
pub(crate) const HUGE_BYTES: usize = 2 << 20;

/// Memory of whole huge pages, where the system has some to give, and cleared. Given back when dropped.
pub(crate) struct Pages {
    #[cfg(all(target_os = "linux", not(miri)))]
    _map: memmap2::MmapMut,
    start: NonNull<u8>,
}

impl Pages {
    /// `bytes` bytes of zeros from a multiple of [`HUGE_BYTES`] on; none where there is no such memory.
    #[cfg(all(target_os = "linux", not(miri)))]
    pub(crate) fn new(bytes: usize) -> Option<Self> {
        // What lies around the aligned part is never touched, and so takes no memory.
        let mut map = memmap2::MmapMut::map_anon(bytes.checked_add(HUGE_BYTES)?).ok()?;
        // Without huge pages small ones do as well.
        let _ = map.advise(memmap2::Advice::HugePage);
        let first = map.as_mut_ptr();
        let start = first.wrapping_add(first.align_offset(HUGE_BYTES));
        Some(Pages {
            _map: map,
            start: NonNull::new(start)?,
        })
    }

    /// None: this system is not asked for huge pages.
    #[cfg(not(all(target_os = "linux", not(miri))))]
    pub(crate) fn new(_bytes: usize) -> Option<Self> {
        None
    }

    /// Where they begin.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.start
    }
}

/// An empty vector for `capacity` elements, in huge pages as far as it fills some.
pub(crate) fn vec_for<T>(capacity: usize) -> Vec<T> {
    let vec: Vec<T> = Vec::with_capacity(capacity);
    #[cfg(all(target_os = "linux", not(miri)))]
    if capacity * size_of::<T>() >= 2 * HUGE_BYTES {
        let start = vec.as_ptr().cast::<std::ffi::c_void>().cast_mut();
        let page = start.wrapping_byte_add(start.cast::<u8>().align_offset(HUGE_BYTES));
        let whole = (vec.capacity() * size_of::<T>() - (page.addr() - start.addr())) / HUGE_BYTES;
        // SAFETY: whole pages of memory that is the vector's; the advice changes nothing in them. Without huge pages small
        // ones do as well.
        let _ = unsafe {
            rustix::mm::madvise(page, whole * HUGE_BYTES, rustix::mm::Advice::LinuxHugepage)
        };
    }
    vec
}
