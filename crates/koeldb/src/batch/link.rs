//! Links between logs: batches without operations by which a log names its predecessor.
//!
//! A log that follows another one begins with a *link*: a batch without operations, with the next
//! sequence number and a note that names the previous log. It shows recovery that nothing is
//! missing between the two. (`docs/formats/write-batch.md`.)

use koeldb_base::SeqNo;
use koeldb_base::coding::{self, put_length_prefixed};
use koeldb_base::file_name::FileNumber;

use super::format::{BatchEntry, BatchIter, HEADER_BYTES, tag};

/// The prefix of a link in log data; the number of the previous log and a [`LinkKind`] follow.
const LINK: &[u8] = b"koeldb.follows:";

/// The meaning of a link record in a log: what it says about the logs before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkKind {
    /// The log continues the previous one; written by early versions, encoded without a kind byte.
    ///
    /// That version also named logs without batches, and removed logs that the MANIFEST did not
    /// record as obsolete.
    Early,
    /// The log continues the previous one.
    Follows,
    /// All older logs are durable; such a link may be anywhere in the log.
    Durable,
}

/// A link record: a batch without operations by which a log names the previous log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// The number of the previous log.
    pub(crate) before: FileNumber,
    pub(crate) kind: LinkKind,
}

impl Link {
    /// Encodes the link as a serialized batch; `next` is the next sequence number of the log.
    pub(crate) fn encode(self, next: SeqNo) -> Vec<u8> {
        let mut note = [LINK, &self.before.to_le_bytes()].concat();
        match self.kind {
            LinkKind::Early => {}
            LinkKind::Follows => note.push(0),
            LinkKind::Durable => note.push(1),
        }
        let mut rep = Vec::with_capacity(HEADER_BYTES + note.len() + 2);
        rep.extend_from_slice(&next.to_le_bytes());
        rep.extend_from_slice(&0_u32.to_le_bytes());
        rep.push(tag::LOG_DATA);
        put_length_prefixed(&mut rep, &note);
        rep
    }

    /// Decodes a link from a serialized batch; `None` if the batch is not a link.
    pub(crate) fn decode(rep: &[u8]) -> Option<Self> {
        let mut records = BatchIter::new(rep.get(HEADER_BYTES..)?);
        let (Some(Ok(BatchEntry::LogData(note))), None) = (records.next(), records.next()) else {
            return None;
        };
        let (number, kind) = note.strip_prefix(LINK)?.split_at_checked(8)?;
        let kind = match kind {
            [] => LinkKind::Early,
            [0] => LinkKind::Follows,
            [1] => LinkKind::Durable,
            _ => return None,
        };
        let before = coding::fixed64_at(number, 0)?;
        Some(Link { before, kind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::format::check;
    use crate::batch::{WriteBatch, header};

    #[test]
    fn a_link_is_a_batch_without_operations() {
        for kind in [LinkKind::Early, LinkKind::Follows, LinkKind::Durable] {
            let link = Link { before: 7, kind };
            let rep = link.encode(300);
            assert_eq!(header(&rep).unwrap(), (300, 0));
            assert_eq!(check(&rep).unwrap(), 0);
            assert_eq!(Link::decode(&rep), Some(link));
        }
        for text in ["koeldb.follows:", "koeldb.follows:12345678\x02", "koeldb"] {
            let mut note = WriteBatch::new();
            note.put_log_data(text);
            assert_eq!(Link::decode(note.data()), None, "{text}");
        }
        assert_eq!(Link::decode(&[]), None);
    }
}
