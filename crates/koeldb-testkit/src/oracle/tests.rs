use super::*;

fn put(key: &str, value: &str) -> Change {
    Change::Put(key.into(), value.into())
}

fn content(pairs: &[(&str, &[(&str, &str)])]) -> Content {
    pairs
        .iter()
        .map(|(name, entries)| {
            let entries = entries
                .iter()
                .map(|(key, value)| ((*key).into(), (*value).into()));
            ((*name).to_owned(), entries.collect())
        })
        .collect()
}

/// Three batches, the first durable and the second acknowledged.
fn three_batches() -> History {
    let history = History::new();
    for number in 0..3 {
        let batch = history.begin(vec![(DEFAULT_FAMILY, put(&format!("k{number}"), "v"))]);
        if number < 2 {
            history.acknowledge(batch, true, number == 0);
        }
    }
    history
}

#[test]
fn a_prefix_between_what_is_owed_and_what_was_begun_is_legal() {
    let history = three_batches();
    let power = history.bounds(&history.owed(Crash::Power));
    let process = history.bounds(&history.owed(Crash::Process));
    let judge = |pairs: &[(&str, &str)], bounds: &Bounds| {
        history.judge(&content(&[("default", pairs)]), bounds, Legality::Prefix)
    };
    assert_eq!(judge(&[("k0", "v")], &power), Ok(1));
    assert!(judge(&[("k0", "v")], &process).is_err());
    assert_eq!(
        judge(&[("k0", "v"), ("k1", "v"), ("k2", "v")], &process),
        Ok(3)
    );
    assert!(judge(&[], &power).is_err());
    assert!(
        judge(&[("k0", "v"), ("k2", "v")], &power).is_err(),
        "a hole"
    );
    assert!(
        judge(&[("k0", "w")], &power).is_err(),
        "a value nobody wrote"
    );
}

#[test]
fn a_failed_batch_is_there_wholly_or_not() {
    let history = History::new();
    let other = history.begin_create("other");
    history.created(other);
    let failed = history.begin(vec![
        (DEFAULT_FAMILY, put("a", "1")),
        (other, put("a", "1")),
    ]);
    history.indeterminate(failed);
    let next = history.begin(vec![(other, put("b", "2"))]);
    history.acknowledge(next, true, true);
    let bounds = history.bounds(&history.owed(Crash::Power));
    let judge = |found: Content| history.judge(&found, &bounds, Legality::Prefix).map(|_| ());
    assert_eq!(
        judge(content(&[("default", &[]), ("other", &[("b", "2")])])),
        Ok(())
    );
    let whole = content(&[
        ("default", &[("a", "1")]),
        ("other", &[("a", "1"), ("b", "2")]),
    ]);
    assert_eq!(judge(whole), Ok(()));
    assert!(
        judge(content(&[
            ("default", &[("a", "1")]),
            ("other", &[("b", "2")])
        ]))
        .is_err()
    );
}

#[test]
fn families_exist_as_long_as_they_must() {
    let history = History::new();
    let family = history.begin_create("other");
    let without = content(&[("default", &[])]);
    let with = content(&[("default", &[]), ("other", &[])]);
    let judge = |found: &Content| {
        let bounds = history.bounds(&history.owed(Crash::Power));
        history.judge(found, &bounds, Legality::Prefix).is_ok()
    };
    assert!(judge(&without) && judge(&with));
    history.created(family);
    assert!(!judge(&without) && judge(&with));
    history.begin_drop(family);
    assert!(judge(&without) && judge(&with));
    history.dropped(family);
    assert!(judge(&without) && !judge(&with));
}

#[test]
fn batches_may_be_missing_only_whole() {
    let history = three_batches();
    let bounds = history.bounds(&history.owed(Crash::Power));
    let judge = |pairs: &[(&str, &str)]| {
        history.judge(
            &content(&[("default", pairs)]),
            &bounds,
            Legality::WholeBatches,
        )
    };
    assert_eq!(judge(&[("k0", "v"), ("k2", "v")]), Ok(2));
    assert!(judge(&[("k1", "v")]).is_err(), "the first is owed");
    assert!(
        judge(&[("k0", "v"), ("k9", "v")]).is_err(),
        "nobody wrote this"
    );
}

#[test]
fn writes_without_log_are_a_prefix_of_their_own() {
    let history = History::new();
    history.begin_unlogged(DEFAULT_FAMILY, vec![put("u1", "v"), put("u2", "v")]);
    history.acknowledge_unlogged(DEFAULT_FAMILY);
    let judge = |pairs: &[(&str, &str)]| {
        let bounds = history.bounds(&history.owed(Crash::Power));
        let found = content(&[("default", pairs)]);
        history.judge(&found, &bounds, Legality::Prefix).is_ok()
    };
    assert!(judge(&[]) && judge(&[("u1", "v")]) && !judge(&[("u2", "v")]));
    history.flushed(&[DEFAULT_FAMILY]);
    assert!(!judge(&[]) && judge(&[("u1", "v"), ("u2", "v")]));
}
