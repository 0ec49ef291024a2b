//! Suggestions for misspelt names.

/// Returns the candidate whose name is nearest to `name`, if it is near enough to be a misspelling.
///
/// Near are at most two edits (insertions, removals and substitutions of a byte), or one per eight
/// bytes of a long name. Of equally near candidates the first one is returned. Names of up to
/// three bytes are not near to any other.
pub fn nearest<'a, T>(name: &str, candidates: impl IntoIterator<Item = (&'a str, T)>) -> Option<T> {
    let edits_max = match name.len() {
        0..=3 => 0,
        length => (length / 8).max(2),
    };
    candidates
        .into_iter()
        .map(|(candidate, value)| (edit_distance(name, candidate), value))
        .filter(|(distance, _)| *distance <= edits_max)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, value)| value)
}

/// Returns the Levenshtein distance in bytes.
fn edit_distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.bytes().enumerate() {
            let substituted = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(name: &str) -> Option<&'static str> {
        let names = ["max_open_files", "max_file_opening_threads", "num"];
        nearest(name, names.map(|name| (name, name)))
    }

    #[test]
    fn a_misspelling_finds_the_name_and_another_word_does_not() {
        assert_eq!(near("max_open_file"), Some("max_open_files"));
        assert_eq!(near("max_opne_files"), Some("max_open_files"));
        assert_eq!(
            near("max_files_openning_thread"),
            Some("max_file_opening_threads")
        );
        assert_eq!(near("open_files"), None);
        assert_eq!(near("nun"), None);
        assert_eq!(near("num"), Some("num"));
        assert_eq!(near(""), None);
    }
}
