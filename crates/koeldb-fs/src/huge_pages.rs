//! How much of a piece of memory is in huge pages.
//!
//! A look-up anywhere in a large table needs an entry of the TLB for the page it meets. Pages of 2 MiB are few enough for
//! all of them to have one; whether the system gave any is not known before it is looked up.

/// How much of `bytes` is in huge pages, from what the system says of the mappings they lie in (Linux,
/// `/proc/self/smaps`). `None` if it says nothing.
///
/// A look-up of the map of the whole process: for reports, not for reads.
#[must_use]
pub fn huge_bytes(bytes: &[u8]) -> Option<u64> {
    let smaps = std::fs::read_to_string("/proc/self/smaps").ok()?;
    let from = bytes.as_ptr().addr() as u64;
    let to = from.saturating_add(bytes.len() as u64);
    let mut inside = false;
    let mut sum = 0_u64;
    for line in smaps.lines() {
        if let Some((start, end)) = range_of(line) {
            inside = start < to && from < end;
        } else if inside {
            sum = sum.saturating_add(huge_bytes_in(line).unwrap_or(0));
        }
    }
    // Memory beside the piece may share its mapping.
    Some(sum.min(bytes.len() as u64))
}

/// The addresses in the first line of a mapping: `7f0000000000-7f0000200000 r--p ...`.
fn range_of(line: &str) -> Option<(u64, u64)> {
    let (start, rest) = line.split_once('-')?;
    let (end, _) = rest.split_once(' ')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some((number(start)?, number(end)?))
}

/// What a line like `AnonHugePages:      2048 kB` adds.
fn huge_bytes_in(line: &str) -> Option<u64> {
    let (name, rest) = line.split_once(':')?;
    let kib: u64 = match name {
        "AnonHugePages" | "ShmemPmdMapped" | "FilePmdMapped" => {
            rest.trim().strip_suffix(" kB")?.parse().ok()?
        }
        _ => return None,
    };
    Some(kib.saturating_mul(1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_and_sizes_are_read() {
        assert_eq!(
            range_of("7f00-8000 r--p 00000000 fe:00 123  /db/000009.sst"),
            Some((0x7f00, 0x8000))
        );
        assert_eq!(range_of("Size:    4 kB"), None);
        assert_eq!(range_of("VmFlags: rd mr-mw me"), None);
        assert_eq!(huge_bytes_in("FilePmdMapped:     2048 kB"), Some(2 << 20));
        assert_eq!(huge_bytes_in("Rss:     2048 kB"), None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "there is no such file")]
    fn small_memory_is_in_no_huge_page() {
        let bytes = vec![1; 100];
        let huge = huge_bytes(&bytes);
        assert!(huge.is_none_or(|huge| huge <= 100));
    }
}
