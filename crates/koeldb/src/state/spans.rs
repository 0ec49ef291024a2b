//! Spans of long-running work for the crate `tracing`, with the feature `tracing`.
//!
//! The target is `koeldb`, the level INFO. Without the feature they are nothing.

#[cfg(feature = "tracing")]
mod recorded {
    use tracing::span::EnteredSpan;

    use crate::state::info_log::JobId;

    /// A `tracing` span that ends when it is dropped.
    #[must_use]
    pub(crate) struct Span(#[expect(dead_code, reason = "held until the work ends")] EnteredSpan);

    /// Enters the `tracing` span of a flush.
    pub(crate) fn flush(family: &str, job: JobId) -> Span {
        Span(tracing::info_span!(target: "koeldb", "flush", cf = family, job).entered())
    }

    /// Enters the `tracing` span of a compaction.
    pub(crate) fn compaction(family: &str, job: JobId) -> Span {
        Span(tracing::info_span!(target: "koeldb", "compaction", cf = family, job).entered())
    }

    /// Enters the `tracing` span of a write stall.
    pub(crate) fn stall() -> Span {
        Span(tracing::info_span!(target: "koeldb", "stall").entered())
    }

    /// Enters the `tracing` span of a recovery.
    pub(crate) fn recovery() -> Span {
        Span(tracing::info_span!(target: "koeldb", "recovery").entered())
    }
}

#[cfg(not(feature = "tracing"))]
mod recorded {
    use crate::state::info_log::JobId;

    /// A span that records nothing, in builds without the feature `tracing`.
    #[must_use]
    pub(crate) struct Span;

    pub(crate) fn flush(_: &str, _: JobId) -> Span {
        Span
    }

    pub(crate) fn compaction(_: &str, _: JobId) -> Span {
        Span
    }

    pub(crate) fn stall() -> Span {
        Span
    }

    pub(crate) fn recovery() -> Span {
        Span
    }
}

pub(crate) use recorded::{compaction, flush, recovery, stall};

#[cfg(all(test, feature = "tracing"))]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicU64, Ordering};

    use koeldb_base::sync::lock_plain as lock;
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};

    use crate::{CompactRangeOptions, Db, Options};

    static SEEN: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

    /// Records the names of entered spans.
    struct Names(AtomicU64);

    impl Subscriber for Names {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == "koeldb"
        }

        fn new_span(&self, span: &Attributes<'_>) -> Id {
            lock(&SEEN).insert(span.metadata().name().to_owned());
            Id::from_u64(self.0.fetch_add(1, Ordering::Relaxed))
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, _: &Event<'_>) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn recoveries_flushes_and_compactions_are_spans() {
        tracing::subscriber::set_global_default(Names(AtomicU64::new(1))).unwrap();
        let mut options = Options::new();
        options
            .create_if_missing(true)
            .set_disable_auto_compactions(true)
            .set_env(&crate::Env::mem_env());
        let db = Db::open(&options, "/db").unwrap();
        for _ in 0..2 {
            db.put("key", "value").unwrap();
            db.flush().unwrap();
        }
        db.compact_all(&CompactRangeOptions::new()).unwrap();
        let seen = lock(&SEEN).clone();
        for name in ["recovery", "flush", "compaction"] {
            assert!(seen.contains(name), "{seen:?}");
        }
    }
}
