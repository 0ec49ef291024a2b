//! The rules that an open holds options to beyond their types: one row each, in tables by struct.
//!
//! [`refuse`](super::refuse) rejects settings that break a rule. [`mend`](super::mend) applies the
//! same rows to OPTIONS files: where a row has a legal value, that value replaces the one of the
//! file. The registry shows the rules of each option. Rules judge sanitized options.
//!
//! - [`database`]: options of the database, alone and with a column family.
//! - [`family`]: options of a column family.
//! - [`tables`]: options of its table format and of its memtable factory.

use super::grammar;
use super::registry::Section;

pub(in crate::options) mod database;
pub(super) mod family;
pub(super) mod tables;

/// The error kind of a broken rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// `InvalidArgument`: the value is out of range or contradicts another option.
    Invalid,
    /// `NotSupported`: a feature is missing.
    Unsupported,
}

/// A rule that an option of the section `S` must obey; `Around` is other options it depends on.
pub(super) struct Rule<S, Around = ()> {
    /// The option that an error names; members of nested structs are dotted.
    pub(super) option: &'static str,
    /// The kind of the error.
    pub(super) verdict: Verdict,
    /// Whether the options break the rule.
    pub(super) is_broken: fn(&S, &Around) -> bool,
    /// The legal values, or the option that the value contradicts.
    pub(super) text: &'static str,
    /// A more precise text for given options.
    pub(super) detail: Option<fn(&S, &Around) -> String>,
    /// The text of the option's value, as in an OPTIONS file.
    pub(super) value: fn(&S) -> Option<String>,
    /// Sets the nearest legal value; `None` if an OPTIONS file with such a value is refused.
    pub(super) mend: Option<fn(&mut S)>,
}

/// A row of a table of rules:
///
/// ```text
/// rule!(Verdict option, |options, around| is_broken, "text")
/// rule!(Verdict option = legal value, |options, around| is_broken, "text")
/// ```
macro_rules! rule {
    ($verdict:ident $option:ident $(. $member:ident)? $(= $legal:expr)?, $is_broken:expr, $text:expr $(,)?) => {
        $crate::options::rules::Rule {
            option: concat!(stringify!($option) $(, ".", stringify!($member))?),
            verdict: $crate::options::rules::Verdict::$verdict,
            is_broken: $is_broken,
            text: $text,
            detail: None,
            value: |options| {
                $crate::options::registry::OptionValue::write(
                    &options.$option $(. $member)?,
                    $crate::options::registry::Style::Full,
                )
            },
            mend: rule!(@mend [$option $(. $member)?] $($legal)?),
        }
    };
    (@mend [$($path:tt)+]) => { None };
    (@mend [$($path:tt)+] $legal:expr) => { Some(|options| options.$($path)+ = $legal) };
}

use rule;

impl<S, Around> Rule<S, Around> {
    /// Returns the value of the option as messages show it; of an object, its id.
    pub(super) fn shown(&self, options: &S) -> String {
        let text = (self.value)(options).unwrap_or_default();
        let id = text
            .strip_prefix("{id=")
            .and_then(|rest| rest.split(';').next());
        id.map_or_else(|| grammar::unescape(&text), str::to_owned)
    }

    /// The reason for rejecting `options`, which break the rule.
    pub(super) fn reason(&self, options: &S, around: &Around) -> String {
        self.detail
            .map_or_else(|| self.text.to_owned(), |detail| detail(options, around))
    }
}

/// Returns the descriptions of the rules for the option `name` of `section`.
pub(super) fn texts_of(section: &str, name: &str) -> Vec<&'static str> {
    let mut out = Vec::new();
    let mut collect = |rule_section: &str, option: &str, text| {
        let is_its_own = rule_section == section && option == name;
        let is_member = || {
            let nested = option.split_once('.');
            nested.is_some_and(|(head, member)| {
                member == name && section == format!("{rule_section}/{head}")
            })
        };
        if is_its_own || is_member() {
            out.push(text);
        }
    };
    visit(database::ALWAYS, &mut collect);
    visit(database::WITH_TRANSACTIONS, &mut collect);
    visit(database::WITH_FAMILY, &mut collect);
    visit(family::RULES, &mut collect);
    visit(tables::BLOCK_BASED, &mut collect);
    visit(tables::CUCKOO, &mut collect);
    visit(tables::PLAIN, &mut collect);
    visit(tables::SORTED_HASH, &mut collect);
    out
}

/// Calls `collect` with the section, option and description of each rule.
fn visit<S: Section, Around>(
    rules: &[Rule<S, Around>],
    collect: &mut impl FnMut(&str, &str, &'static str),
) {
    for rule in rules {
        collect(S::NAME, rule.option, rule.text);
    }
}
