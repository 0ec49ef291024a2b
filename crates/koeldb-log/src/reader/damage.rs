//! The verdicts on damage: whether it is a problem, the torn end of the log, or unused space.
#![deny(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

use super::{Problem, ProblemKind, RecordReader, RecoveryMode};
use crate::format::{BLOCK_BYTES, HEADER_BYTES, Part, RecordType};

/// The position from which the log is presumed to have ended, until a later record disproves it.
#[derive(Debug)]
pub(super) struct Suspect {
    problem: Problem,
    /// Whether the presumed end consists of zeros: space that was never written.
    unused: bool,
}

impl RecordReader {
    /// Discards the record being assembled and reports it as interrupted by damage.
    pub(super) fn interrupt(&mut self) {
        if let Some(open) = self.open.take() {
            self.report(Problem {
                offset: open.offset,
                dropped_bytes: open.payload_bytes,
                kind: ProblemKind::Interrupted,
            });
        }
    }

    /// Handles a zero header as unused space, a torn end of the log, or damage.
    ///
    /// A zero rest of a block is unused space unless records follow. Other bytes after such a
    /// header are damage, except after a lost sector, and in a recycled file, where they are remains
    /// of its earlier use unless records of its own follow.
    pub(super) fn zeros(&mut self) {
        let unused = self.blocks.rest_is_zero();
        let tolerates_tear = self.mode == RecoveryMode::TolerateCorruptedTailRecords
            && self.blocks.tail().has_lost_sector(HEADER_BYTES);
        match &self.open {
            None if unused || self.recycled => {
                let problem = self.here(ProblemKind::ZerosBeforeRecords);
                self.suspect.get_or_insert(Suspect {
                    problem,
                    unused: true,
                });
            }
            Some(_) if tolerates_tear => self.suspect_torn(ProblemKind::Interrupted),
            None if tolerates_tear => self.suspect_torn(ProblemKind::ZerosBeforeRecords),
            None => {
                let problem = self.here(ProblemKind::ZerosBeforeRecords);
                self.report(problem);
            }
            Some(_) => self.interrupt(),
        }
        self.blocks.skip_rest();
    }

    /// Handles a record with a bad length or checksum: drops the rest of the block or ends the log.
    pub(super) fn damaged(&mut self, kind: ProblemKind, record_bytes: usize) {
        if self.mode == RecoveryMode::TolerateCorruptedTailRecords {
            let was_whole = self.was_whole();
            if self.recycled && !was_whole {
                self.tolerated = Some(self.here(kind));
                self.finished = true;
                return;
            }
            if !was_whole && self.blocks.tail().has_lost_sector(record_bytes) {
                self.suspect_torn(kind);
                self.blocks.skip_rest();
                return;
            }
        }
        let problem = self.here(kind);
        self.blocks.skip_rest();
        self.report(problem);
        self.interrupt();
    }

    /// Whether the damaged record at the read position was once written completely.
    pub(super) fn was_whole(&self) -> bool {
        self.blocks.tail().was_whole()
    }

    /// Marks the rest of the block and the incomplete record as a presumed torn end of the log.
    pub(super) fn suspect_torn(&mut self, kind: ProblemKind) {
        let mut problem = self.here(kind);
        if let Some(open) = self.open.take() {
            problem.offset = open.offset;
            problem.dropped_bytes = problem.dropped_bytes.saturating_add(open.payload_bytes);
        }
        match &mut self.suspect {
            Some(suspect) => suspect.unused = false,
            None => {
                self.suspect = Some(Suspect {
                    problem,
                    unused: false,
                });
            }
        }
    }

    /// Decides, at an intact record after a presumed end of the log, if that end was damage.
    ///
    /// Returns whether the record is to be processed.
    ///
    /// After a torn end, only the beginning of a record disproves it. After unused space, records
    /// are a problem, with two exceptions: a writer itself leaves zeros at the end of a block before
    /// a record that must not be fragmented, and a torn record may have lost its first fragments.
    pub(super) fn clear_suspect(&mut self, record_type: RecordType, offset: u64) -> bool {
        let Some(mut suspect) = self.suspect.take() else {
            return true;
        };
        let gap = offset.saturating_sub(suspect.problem.offset);
        if self.mode == RecoveryMode::TolerateCorruptedTailRecords
            && matches!(record_type, RecordType::Data(Part::Middle | Part::Last))
        {
            suspect.unused = false;
        }
        let harmless = match record_type {
            RecordType::Data(Part::Full | Part::First) => false,
            RecordType::Data(Part::Middle | Part::Last) => !suspect.unused,
            _ => !suspect.unused || gap < BLOCK_BYTES as u64,
        };
        if !harmless {
            suspect.problem.dropped_bytes = gap;
            self.report(suspect.problem);
            return true;
        }
        let counts = suspect.unused;
        if !counts {
            self.suspect = Some(suspect);
        }
        counts
    }

    /// Handles a record with the number of an older log, which a recycled file still contains.
    pub(super) fn old_record(&mut self) {
        if self.mode == RecoveryMode::SkipAnyCorruptedRecords {
            self.interrupt();
            return;
        }
        if self.open.is_some() {
            self.end(None);
        } else if self.mode == RecoveryMode::PointInTime {
            let problem = Problem {
                dropped_bytes: 0,
                ..self.here(ProblemKind::OldRecord)
            };
            self.report(problem);
        }
        self.finished = true;
    }

    /// Ends reading at the end of the log; reports or tolerates an incomplete last record.
    pub(super) fn end(&mut self, cut: Option<Problem>) {
        let open = self.open.take().map(|open| Problem {
            offset: open.offset,
            dropped_bytes: open.payload_bytes,
            kind: ProblemKind::TruncatedRecord,
        });
        let reports = matches!(
            self.mode,
            RecoveryMode::AbsoluteConsistency | RecoveryMode::PointInTime
        );
        if let Some(suspect) = self.suspect.take()
            && !suspect.unused
        {
            self.tolerated.get_or_insert(suspect.problem);
        }
        for problem in [cut, open].into_iter().flatten() {
            if reports {
                self.report(problem);
            } else {
                self.tolerated.get_or_insert(problem);
            }
        }
        self.blocks.skip_rest();
        self.finished = true;
    }
}
