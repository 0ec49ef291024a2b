//! Reports how much memory is backed by huge pages.
//!
//! A lookup at a random position of a large table needs a TLB entry for its page. Pages of 2 MiB
//! are few enough for all of them to have one. Whether the system provided any is unknown until it
//! is queried.

/// A snapshot of the process's mappings and their huge-page bytes.
#[derive(Debug)]
pub struct HugePages {
    mappings: Vec<Mapping>,
}

/// An address range of the process and the bytes of it in huge pages.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    start: u64,
    end: u64,
    huge_bytes: u64,
}

impl HugePages {
    /// Reads the mappings from Linux's `/proc/self/smaps`; `None` if it is not available.
    ///
    /// The system walks all page tables for it: use it for reports, not for reads.
    #[must_use]
    pub fn of_this_process() -> Option<Self> {
        std::fs::read_to_string("/proc/self/smaps")
            .ok()
            .map(|smaps| Self::parse(&smaps))
    }

    /// Parses the text of `/proc/self/smaps`.
    fn parse(smaps: &str) -> Self {
        let mut mappings: Vec<Mapping> = Vec::new();
        for line in smaps.lines() {
            if let Some((start, end)) = range_of(line) {
                mappings.push(Mapping {
                    start,
                    end,
                    huge_bytes: 0,
                });
            } else if let (Some(mapping), Some(bytes)) = (mappings.last_mut(), huge_bytes_in(line))
            {
                mapping.huge_bytes = mapping.huge_bytes.saturating_add(bytes);
            }
        }
        HugePages { mappings }
    }

    /// An upper bound of the bytes in huge pages among the `len` bytes at an address.
    ///
    /// Adjacent memory may be part of the same mapping.
    #[must_use]
    pub fn at_most(&self, address: usize, len: u64) -> u64 {
        let from = address as u64;
        let to = from.saturating_add(len);
        let in_mapping = |mapping: &Mapping| {
            let shared = mapping.end.min(to).saturating_sub(mapping.start.max(from));
            mapping.huge_bytes.min(shared)
        };
        self.mappings.iter().map(in_mapping).sum()
    }
}

/// Parses the addresses in the first line of a mapping: `7f0000000000-7f0000200000 r--p ...`.
fn range_of(line: &str) -> Option<(u64, u64)> {
    let (start, rest) = line.split_once('-')?;
    let (end, _) = rest.split_once(' ')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some((number(start)?, number(end)?))
}

/// Parses the huge-page bytes in a line such as `AnonHugePages: 2048 kB`.
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

    const SMAPS: &str = "\
600000-e00000 r--p 00000000 fe:00 123  /db/000009.sst
Size:               8192 kB
AnonHugePages:         0 kB
FilePmdMapped:      4096 kB
VmFlags: rd mr-mw me
e00000-f00000 rw-p 00000000 00:00 0
AnonHugePages:      1024 kB
";

    #[test]
    fn huge_pages_are_counted_in_what_a_piece_shares_with_mappings() {
        let pages = HugePages::parse(SMAPS);
        assert_eq!(pages.mappings.len(), 2);
        assert_eq!(pages.at_most(0x60_0000, 0x80_0000), 4 << 20);
        assert_eq!(pages.at_most(0x60_0000, 100), 100);
        assert_eq!(pages.at_most(0xd0_0000, 0x20_0000), 2 << 20);
        assert_eq!(pages.at_most(0xf0_0000, 1 << 20), 0);
    }

    #[test]
    #[cfg(target_os = "linux")]
    #[cfg_attr(miri, ignore = "there is no such file")]
    fn this_process_has_mappings() {
        let bytes = vec![1; 100];
        let pages = HugePages::of_this_process().unwrap();
        let address = bytes.as_ptr().addr();
        let is_around =
            |mapping: &Mapping| (mapping.start..mapping.end).contains(&(address as u64));
        assert!(pages.mappings.iter().any(is_around));
    }
}
