//! Random changes of bytes, with a preference for boundary values.

use koeldb_testkit::Random;

/// Numbers at which decoders break: ends of ranges, and their neighbours.
const NUMBERS: [u64; 14] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xff,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fffe,
    0xffff_ffff,
    1 << 56,
    u64::MAX - 1,
    u64::MAX,
];

/// Returns a random index in `0..len`; 0 if the range is empty.
fn place(random: &mut Random, len: usize) -> usize {
    usize::try_from(random.below(len as u64)).unwrap_or(0)
}

/// Returns a boundary value or a random number.
fn number(random: &mut Random) -> u64 {
    match random.below(4) {
        0 => random.draw(),
        1 => random.below(300),
        _ => NUMBERS[place(random, NUMBERS.len())],
    }
}

/// Returns a random number in stored form: of one, two, four or eight bytes, or a varint.
fn stored(random: &mut Random) -> Vec<u8> {
    let number = number(random);
    match random.below(5) {
        0 => number.to_le_bytes()[..1].to_vec(),
        1 => number.to_le_bytes()[..2].to_vec(),
        2 => number.to_le_bytes()[..4].to_vec(),
        3 => number.to_le_bytes().to_vec(),
        _ => {
            let mut bytes = Vec::new();
            koeldb_base::coding::put_varint64(&mut bytes, number);
            bytes
        }
    }
}

/// Changes `bytes` in one random place, without changing their length.
pub fn in_place(random: &mut Random, bytes: &mut [u8]) {
    if bytes.is_empty() {
        return;
    }
    let at = place(random, bytes.len());
    match random.below(6) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = bytes[at].wrapping_add(1),
        2 => bytes[at] = bytes[at].wrapping_sub(1),
        3 => {
            let from = place(random, bytes.len());
            let len = place(random, 17).min(bytes.len() - from.max(at));
            bytes.copy_within(from..from + len, at);
        }
        _ => {
            for (byte, new) in bytes[at..].iter_mut().zip(stored(random)) {
                *byte = new;
            }
        }
    }
}

/// Changes `bytes` in one random place: truncates, removes, inserts, repeats or overwrites.
///
/// `other` provides bytes to insert.
pub fn anyhow(random: &mut Random, bytes: &mut Vec<u8>, other: &[u8]) {
    let at = place(random, bytes.len() + 1);
    match random.below(8) {
        0 => bytes.truncate(at),
        1 => {
            let end = bytes.len().min(at + place(random, 20));
            bytes.drain(at..end);
        }
        2 => {
            let new = stored(random);
            bytes.splice(at..at, new);
        }
        3 => {
            let from = place(random, other.len());
            let end = other.len().min(from + place(random, 200));
            bytes.splice(at..at, other[from..end].iter().copied());
        }
        4 => {
            let end = bytes.len().min(at + place(random, 40));
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
        _ => in_place(random, bytes),
    }
}
