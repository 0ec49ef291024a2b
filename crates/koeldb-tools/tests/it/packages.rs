//! The packages of published crates: metadata, README and licences, complete without the repository.

use std::fs;
use std::path::{Path, PathBuf};

use super::book::{links, repository};

/// The value of a line `KEY = "VALUE"` of a manifest.
fn value<'a>(manifest: &'a str, key: &str) -> Option<&'a str> {
    manifest.lines().find_map(|line| {
        let (name, value) = line.split_once(" = ")?;
        (name == key).then(|| value.trim_matches('"'))
    })
}

/// The folders and manifests of the crates that are published.
fn published() -> Vec<(PathBuf, String)> {
    let crates = fs::read_dir(repository().join("crates")).expect("the crates");
    crates
        .map(|entry| entry.expect("an entry").path())
        .filter_map(|path| {
            let manifest = fs::read_to_string(path.join("Cargo.toml")).ok()?;
            (value(&manifest, "publish") != Some("false")).then_some((path, manifest))
        })
        .collect()
}

#[test]
fn a_published_crate_is_complete_by_itself() {
    let published = published();
    assert!(published.len() >= 13, "{}", published.len());
    for (path, manifest) in published {
        let name = value(&manifest, "name").expect("a name");
        for inherited in ["version", "rust-version", "license", "repository"] {
            let key = format!("{inherited}.workspace");
            assert_eq!(value(&manifest, &key), Some("true"), "{name}: {key}");
        }
        let documentation = format!("https://docs.rs/{name}");
        assert_eq!(value(&manifest, "documentation"), Some(&*documentation));
        assert!(value(&manifest, "description").is_some(), "{name}");
        assert!(manifest.contains("[package.metadata.docs.rs]"), "{name}");
        assert!(!manifest.contains("koeldb-testkit") || manifest.contains("[dev-dependencies]"));
        for file in ["LICENSE-MIT", "LICENSE-APACHE"] {
            assert!(path.join(file).is_file(), "{name} lacks {file}");
        }
        assert_eq!(value(&manifest, "readme"), Some("README.md"), "{name}");
        let readme = fs::read_to_string(path.join("README.md")).expect("a README");
        for target in links(&readme) {
            assert!(target.starts_with("https://"), "{name}: {target}");
        }
    }
}

/// The README as the package `koeldb` has it: links lead into the repository.
fn readme_of_the_package() -> String {
    let root = repository();
    let manifest = fs::read_to_string(root.join("Cargo.toml")).expect("a manifest");
    let home = value(&manifest, "repository").expect("a repository");
    let version = value(&manifest, "version").expect("a version");
    let mut readme = fs::read_to_string(root.join("README.md")).expect("the README");
    let mut targets = links(&readme);
    targets.sort();
    targets.dedup();
    for target in targets {
        if target.contains("://") || target.starts_with('#') {
            continue;
        }
        let is_picture = Path::new(&target).extension().is_some_and(|e| e == "svg");
        let kind = if is_picture { "raw" } else { "blob" };
        let absolute = format!("]({home}/{kind}/v{version}/{target})");
        readme = readme.replace(&format!("]({target})"), &absolute);
    }
    readme
}

#[test]
fn the_readme_of_the_package_is_that_of_the_repository_with_absolute_links() {
    let path = repository().join("crates/koeldb/README.md");
    let expected = readme_of_the_package();
    if std::env::var_os("REWRITE").is_some() {
        fs::write(&path, &expected).expect("the README can be written");
        return;
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == expected,
        "{} is stale; REWRITE=1 cargo test -p koeldb-tools --test it packages:: writes it",
        path.display()
    );
}
