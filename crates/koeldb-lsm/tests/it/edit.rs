//! Scripts for version edits: a tree, an edit, and the resulting tree or the error.
//!
//! ```text
//! tree                            the tree that edits below begin with
//! edit                            applies an edit: lines `delete LEVEL NUMBER`, `add LEVEL TABLE`
//! show                            the edit as the tools print it
//! ```

use std::sync::Arc;

use datadriven::TestCase;
use koeldb_lsm::version::builder::{MissingEpochs, VersionBuilder};
use koeldb_lsm::{Version, version::VersionEdit};

use crate::{entries, parse};

fn edit(text: &str) -> VersionEdit {
    let mut edit = VersionEdit::of(0);
    for line in text.lines() {
        let (verb, rest) = line.split_once(' ').expect("VERB WORDS");
        let (level, rest) = rest.split_once(' ').unwrap_or(("0", rest));
        let level = usize::try_from(entries::number(level)).unwrap();
        match verb {
            "delete" => edit.deleted_files.push((level, entries::number(rest))),
            "add" => edit.added_files.push((level, Arc::new(parse::file(rest)))),
            "log" => edit.log_number = Some(entries::number(rest)),
            other => panic!("no verb {other:?}"),
        }
    }
    edit
}

fn run(case: &mut TestCase, tree: &mut Arc<Version>) -> String {
    match case.directive.as_str() {
        "tree" => {
            *tree = Arc::new(parse::tree(&case.input, 7));
            tree.to_string()
        }
        "show" => format!("{}\n", edit(&case.input)),
        "edit" => {
            let mut builder = VersionBuilder::new(Arc::clone(tree));
            let applied = builder
                .apply(&edit(&case.input))
                .and_then(|()| builder.finish(MissingEpochs::Refuse));
            match applied {
                Ok(version) => {
                    *tree = Arc::new(version);
                    tree.to_string()
                }
                Err(error) => format!("error: {error}\n"),
            }
        }
        other => panic!("no command {other:?}"),
    }
}

#[test]
fn edits_lead_to_the_trees_that_the_scripts_show() {
    datadriven::walk("tests/data/edit", |file| {
        let mut tree = Arc::new(parse::tree("", 7));
        file.run(|case| run(case, &mut tree));
    });
}
