//! Properties of options, and access to options by name.
//!
//! Each option has one [`Row`] in its [`Section`], created from its declaration
//! ([`declare`](super::declare)). Rows read and write texts, and are the source of [`OptionInfo`].

use koeldb_base::{Error, ErrorKind, nearest};

use super::config::{ConfigOptions, IgnoredOption};
use super::db::Options;
use super::grammar;
use super::object::OwnObjects;
use super::rules;

/// The effect of setting an option: whether the engine honours, ignores or refuses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// The engine obeys the option.
    Honoured,
    /// Kept, written back and announced at open; the engine does not read it.
    ///
    /// The setting could only change speed, space or statistics, never answers or durability.
    Accepted,
    /// Only the default is accepted, because another value would change answers or durability.
    Refused,
    /// A name of older releases: any value is accepted and dropped.
    Removed,
}

/// The description of an option.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OptionInfo {
    /// The name in strings and OPTIONS files.
    pub name: &'static str,
    /// The section of an OPTIONS file, or the struct, of the option.
    ///
    /// Examples are `DBOptions` and `CFOptions/compression_opts`.
    pub section: &'static str,
    /// The type of its value: `u64`, `bool`, `enum{…}`.
    pub kind: String,
    /// The default as it is written.
    pub default: String,
    /// Unit, range and special values; may be empty.
    pub range: &'static str,
    /// Whether it may be changed while the database is open.
    pub mutable: bool,
    /// The effect of setting it.
    pub effect: Effect,
    /// The conditions that an open checks, alone and with other options: legal values, or what the
    /// option needs.
    pub rules: Vec<&'static str>,
    /// The method that sets it; `None` if the method is not named by the option's declaration.
    pub setter: Option<&'static str>,
    /// The first release of RocksDB that knows the name, or of KoelDB if RocksDB does not.
    pub since: &'static str,
    /// The documentation of the option.
    pub documentation: String,
}

/// The kind of error for a rejected option text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalKind {
    /// The name is unknown.
    UnknownName,
    /// The name or id is known but not supported; or the id is unknown.
    Unsupported,
    /// The text is not a value of the option.
    Invalid,
}

/// The error for a rejected option text.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) kind: RefusalKind,
    pub(crate) message: String,
}

impl Refusal {
    /// Creates the error for a text that is not a value of its option.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Refusal {
            kind: RefusalKind::Invalid,
            message: message.into(),
        }
    }

    /// Creates the error for a known option or id that is not supported, or an unknown id.
    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Refusal {
            kind: RefusalKind::Unsupported,
            message: message.into(),
        }
    }

    /// Creates the error for an unknown option name.
    pub(crate) fn unknown(message: impl Into<String>) -> Self {
        Refusal {
            kind: RefusalKind::UnknownName,
            message: message.into(),
        }
    }
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Self {
        let kind = match refusal.kind {
            RefusalKind::Unsupported => ErrorKind::NotSupported,
            RefusalKind::UnknownName | RefusalKind::Invalid => ErrorKind::InvalidArgument,
        };
        let error = Error::with_kind(kind, refusal.message);
        match refusal.kind {
            RefusalKind::UnknownName => {
                error.with_advice("correct or remove the name: `Options::registry` lists all")
            }
            RefusalKind::Unsupported | RefusalKind::Invalid => error,
        }
    }
}

/// The state of reading option texts: settings, the caller's objects, options ignored so far.
pub(crate) struct Reading {
    pub(crate) ignore_unknown: bool,
    pub(crate) ignore_unsupported: bool,
    /// Whether only mutable options are accepted.
    pub(crate) mutable_only: bool,
    /// Whether an id is the full name of an object, never the nickname of a built-in one.
    pub(crate) recorded_names: bool,
    /// Objects of the caller, which precede built-in ones of the same name.
    pub(crate) own: OwnObjects,
    pub(crate) ignored: Vec<IgnoredOption>,
}

impl Reading {
    pub(crate) fn new(config: &ConfigOptions) -> Self {
        Reading {
            ignore_unknown: config.ignore_unknown_options,
            ignore_unsupported: config.ignore_unsupported_options,
            mutable_only: false,
            recorded_names: false,
            own: OwnObjects::default(),
            ignored: Vec::new(),
        }
    }

    /// Passes an outcome on; an error that the settings tolerate is recorded and becomes `Ok`.
    pub(crate) fn tolerate(
        &mut self,
        section: &str,
        name: &str,
        value: &str,
        outcome: Result<(), Refusal>,
    ) -> Result<(), Refusal> {
        let Err(refusal) = outcome else {
            return Ok(());
        };
        let ignore = match refusal.kind {
            RefusalKind::Unsupported => self.ignore_unsupported,
            RefusalKind::UnknownName | RefusalKind::Invalid => self.ignore_unknown,
        };
        if !ignore {
            return Err(refusal);
        }
        self.ignored.push(IgnoredOption {
            section: section.to_owned(),
            name: name.to_owned(),
            value: value.to_owned(),
            reason: refusal.message,
        });
        Ok(())
    }
}

/// The choice of options to write as text: all, or all but defaults unknown to RocksDB 7.8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// All option names.
    Full,
    /// Names that RocksDB 7.8 knows, and others whose value is not the default.
    ///
    /// All readers from 7.8 to 11.9 accept this as long as no newer option is used.
    Portable,
}

/// Names and texts of options; members of nested options have dotted names.
pub(crate) type Settings = Vec<(String, String)>;

/// A type whose values are read from option texts and written as texts.
pub(crate) trait OptionValue {
    /// The type's name in [`OptionInfo::kind`].
    fn kind() -> String
    where
        Self: Sized;

    /// Sets the value of the option `name` from `text`; a struct changes only the named members.
    fn read(&mut self, name: &str, text: &str, reading: &mut Reading) -> Result<(), Refusal>;

    /// Sets one member of the option `name` from `text`.
    fn read_member(
        &mut self,
        name: &str,
        member: &str,
        text: &str,
        reading: &mut Reading,
    ) -> Result<(), Refusal> {
        let _ = (text, reading);
        Err(Refusal::unknown(format!(
            "Unrecognized option: {name}.{member}: {name} has no members"
        )))
    }

    /// Returns the text from which [`OptionValue::read`] restores the value.
    ///
    /// `None` if there is no such text.
    fn write(&self, style: Style) -> Option<String>;

    /// Appends the members that have other values than the default but no effect.
    fn members_without_effect(&self, path: &str, out: &mut Settings) {
        let _ = (path, out);
    }
}

/// The registry entry of an option of the section `S`: its name, effect and access functions.
pub(crate) struct Row<S: 'static> {
    pub(crate) name: &'static str,
    pub(crate) since: &'static str,
    pub(crate) effect: Effect,
    pub(crate) setter: Option<&'static str>,
    pub(crate) mutable: bool,
    pub(crate) range: &'static str,
    pub(crate) documentation: &'static [&'static str],
    pub(crate) kind: fn() -> String,
    pub(crate) read: fn(&mut S, &str, &str, &mut Reading) -> Result<(), Refusal>,
    pub(crate) read_member: fn(&mut S, &str, &str, &str, &mut Reading) -> Result<(), Refusal>,
    pub(crate) write: fn(&S, Style) -> Option<String>,
    pub(crate) members_without_effect: fn(&S, &str, &mut Settings),
}

/// An option name of older RocksDB releases, which 11.9 no longer has.
pub(crate) struct Removed {
    pub(crate) name: &'static str,
    pub(crate) mutable: bool,
    /// The option that replaced it.
    pub(crate) successor: Option<&'static str>,
    pub(crate) documentation: &'static str,
}

/// A struct of options: a section of an OPTIONS file, or a nested struct.
pub(crate) trait Section: Default + Clone + 'static {
    /// The name, as in the table of options: `DBOptions`, `CFOptions/compression_opts`.
    const NAME: &'static str;

    /// Returns the registry entries of all options, in the order in which they are written.
    fn rows() -> &'static [Row<Self>];

    /// The options that older releases of RocksDB wrote and 11.9 no longer has.
    fn removed() -> &'static [Removed];

    /// Returns the names and default texts of the options that RocksDB 7.8 does not know.
    fn default_texts() -> &'static [(&'static str, String)];

    /// Returns pairs of an alias and the option name that it stands for.
    fn aliases() -> &'static [(&'static str, &'static str)];

    /// Reads a short form of the whole struct; `None` if `text` is not a short form.
    fn read_short_form(&mut self, name: &str, text: &str) -> Option<Result<(), Refusal>> {
        let _ = (name, text);
        None
    }
}

/// Whether RocksDB 7.8 knows an option that was introduced in release `since`.
pub(crate) fn is_known_to_7_8(since: &str) -> bool {
    if since.starts_with("KoelDB") {
        return false;
    }
    let number = since.trim_start_matches("<=");
    let mut parts = number.split('.').map(|part| part.parse::<u32>());
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) <= (7, 8),
        _ => true,
    }
}

/// Whether the section has an option, an alias or a removed option of this name.
///
/// Also true for the name of a member.
pub(crate) fn knows<S: Section>(name: &str) -> bool {
    let head = name.split_once('.').map_or(name, |(head, _)| head);
    S::rows().iter().any(|row| row.name == head)
        || S::aliases().iter().any(|(alias, _)| *alias == head)
}

/// Whether an older release had an option of this name, which 11.9 no longer has.
pub(crate) fn was_removed<S: Section>(name: &str) -> bool {
    S::removed().iter().any(|removed| removed.name == name)
}

/// Returns the error for the old name of a renamed option if its value is not the default.
///
/// It would have no effect, although the caller asks for one.
fn refused_renamed<S: Section>(removed: &Removed, text: &str) -> Option<Refusal> {
    let successor = removed.successor?;
    let row = S::rows().iter().find(|row| row.name == successor)?;
    let is_default = (row.write)(&S::default(), Style::Full).as_deref() == Some(text);
    (!is_default).then(|| {
        Refusal::invalid(format!(
            "{}={text} has no effect: the option was renamed; set {successor}",
            removed.name
        ))
    })
}

/// Whether an option of this name of older releases has another name today.
pub(crate) fn was_renamed<S: Section>(name: &str) -> bool {
    S::removed()
        .iter()
        .any(|removed| removed.name == name && removed.successor.is_some())
}

/// Sets an option or member by name from text; `path` precedes the name in messages.
pub(crate) fn set<S: Section>(
    target: &mut S,
    path: &str,
    name: &str,
    text: &str,
    reading: &mut Reading,
) -> Result<(), Refusal> {
    let (head, member) = match name.split_once('.') {
        Some((head, member)) => (head, Some(member)),
        None => (name, None),
    };
    let canonical = S::aliases()
        .iter()
        .find(|(alias, _)| *alias == head)
        .map_or(head, |(_, name)| name);
    let full = |name: &str| {
        if path.is_empty() {
            name.to_owned()
        } else {
            format!("{path}.{name}")
        }
    };
    if let Some(row) = S::rows().iter().find(|row| row.name == canonical) {
        if reading.mutable_only && !row.mutable {
            return Err(Refusal::invalid(format!(
                "Option not changeable: {} is fixed while the database is open; close it and open it with {}={text}",
                full(head),
                full(head)
            )));
        }
        return match member {
            Some(member) => (row.read_member)(target, &full(head), member, text, reading),
            None => (row.read)(target, &full(head), text, reading),
        };
    }
    if let Some(removed) = S::removed().iter().find(|removed| removed.name == name) {
        return if reading.mutable_only && !removed.mutable {
            Err(Refusal::invalid(format!(
                "Option not changeable: {} is an option of older releases and has no effect",
                full(name)
            )))
        } else {
            refused_renamed::<S>(removed, grammar::trim(text)).map_or(Ok(()), Err)
        };
    }
    let hint = suggestion::<S>(name);
    Err(Refusal::unknown(if path.is_empty() {
        format!("Extra option not recognized: {name}{hint}")
    } else {
        format!("Unrecognized option: {}{hint}", full(name))
    }))
}

/// Returns a hint for an unknown option name, `(did you mean …?)`, or an empty string.
///
/// Options of the section precede equally near ones of others.
fn suggestion<S: Section>(name: &str) -> String {
    let all = Options::registry().iter();
    let current = all.filter(|info| info.effect != Effect::Removed);
    let (own, others): (Vec<_>, Vec<_>) = current.partition(|info| info.section == S::NAME);
    let candidates = own.into_iter().chain(others).map(|info| (info.name, info));
    match nearest(name, candidates) {
        Some(info) if info.section == S::NAME => format!(" (did you mean {}?)", info.name),
        Some(info) => format!(" (did you mean {} of {}?)", info.name, info.section),
        None => String::new(),
    }
}

/// Returns the names and value texts of the options that `style` writes.
pub(crate) fn written<S: Section>(source: &S, style: Style) -> Vec<(&'static str, String)> {
    let is_left_out = |row: &Row<S>, text: &str| {
        style == Style::Portable
            && !is_known_to_7_8(row.since)
            && (S::default_texts().iter())
                .any(|(name, default)| *name == row.name && default == text)
    };
    S::rows()
        .iter()
        .filter_map(|row| {
            let text = (row.write)(source, style)?;
            (!is_left_out(row, &text)).then_some((row.name, text))
        })
        .collect()
}

/// Returns the names and default texts of the options that RocksDB 7.8 does not know.
pub(crate) fn portable_defaults<S: Section>() -> Vec<(&'static str, String)> {
    let default = S::default();
    S::rows()
        .iter()
        .filter(|row| !is_known_to_7_8(row.since))
        .filter_map(|row| Some((row.name, (row.write)(&default, Style::Portable)?)))
        .collect()
}

/// Returns the names and value texts of the options that differ from their defaults.
pub(crate) fn differing<S: Section>(source: &S) -> Vec<(&'static str, String)> {
    let defaults = written(&S::default(), Style::Full);
    let mut texts = written(source, Style::Full);
    texts.retain(|pair| !defaults.contains(pair));
    texts
}

/// Appends the options that have other values than the default but no effect.
///
/// Members of nested structs are included. `path` precedes the names, if it is not empty.
pub(crate) fn without_effect<S: Section>(source: &S, path: &str, out: &mut Settings) {
    let default = S::default();
    for row in S::rows() {
        let name = match path {
            "" => row.name.to_owned(),
            path => format!("{path}.{}", row.name),
        };
        if row.effect != Effect::Accepted {
            (row.members_without_effect)(source, &name, out);
            continue;
        }
        let text = (row.write)(source, Style::Full);
        if let Some(text) = text
            && (row.write)(&default, Style::Full).as_ref() != Some(&text)
        {
            out.push((name, text));
        }
    }
}

/// Formats a section for `Debug`, by the names and value texts of its options.
pub(crate) fn debug<S: Section>(
    source: &S,
    type_name: &str,
    f: &mut std::fmt::Formatter<'_>,
) -> std::fmt::Result {
    let mut out = f.debug_struct(type_name);
    for (name, text) in written(source, Style::Full) {
        out.field(name, &format_args!("{text}"));
    }
    out.finish()
}

/// Appends the descriptions of all options of a section to the public registry.
pub(crate) fn describe<S: Section>(out: &mut Vec<OptionInfo>) {
    let default = S::default();
    out.extend(S::rows().iter().map(|row| {
        OptionInfo {
            name: row.name,
            section: S::NAME,
            kind: (row.kind)(),
            default: (row.write)(&default, Style::Full).unwrap_or_default(),
            range: row.range,
            mutable: row.mutable,
            effect: row.effect,
            rules: rules::texts_of(S::NAME, row.name),
            setter: row.setter,
            since: row.since,
            documentation: row
                .documentation
                .iter()
                .map(|line| line.trim())
                .collect::<Vec<_>>()
                .join(" "),
        }
    }));
    out.extend(S::removed().iter().map(|removed| OptionInfo {
        name: removed.name,
        section: S::NAME,
        kind: "any".to_owned(),
        default: String::new(),
        range: "any value is accepted and dropped",
        mutable: removed.mutable,
        effect: Effect::Removed,
        rules: Vec::new(),
        setter: None,
        since: "<=5.4",
        documentation: removed.documentation.to_owned(),
    }));
}

impl<S: Section> OptionValue for S {
    fn kind() -> String {
        "struct".to_owned()
    }

    fn read(&mut self, name: &str, text: &str, reading: &mut Reading) -> Result<(), Refusal> {
        if let Some(outcome) = self.read_short_form(name, text) {
            return outcome;
        }
        let mut changed = self.clone();
        for (member, value) in grammar::pairs(text)? {
            let outcome = set(&mut changed, name, member, value, reading);
            reading.tolerate(S::NAME, member, value, outcome)?;
        }
        *self = changed;
        Ok(())
    }

    fn read_member(
        &mut self,
        name: &str,
        member: &str,
        text: &str,
        reading: &mut Reading,
    ) -> Result<(), Refusal> {
        set(self, name, member, text, reading)
    }

    fn write(&self, style: Style) -> Option<String> {
        let mut out = String::from("{");
        for (name, text) in written(self, style) {
            out.push_str(name);
            out.push('=');
            out.push_str(&grammar::protect(&text));
            out.push(';');
        }
        out.push('}');
        Some(out)
    }

    fn members_without_effect(&self, path: &str, out: &mut Settings) {
        without_effect(self, path, out);
    }
}

/// Checks the text of an option that accepts only its default, and rejects other values.
pub(crate) fn read_declined<T: OptionValue>(
    default: T,
    name: &str,
    text: &str,
    reading: &mut Reading,
) -> Result<(), Refusal> {
    let expected = default.write(Style::Full);
    let mut value = default;
    let shown = expected.as_deref().unwrap_or_default();
    let declined = || {
        Refusal::unsupported(format!(
            "{name}={text} is not supported: only the default ({shown}) is accepted; leave the option out"
        ))
    };
    value.read(name, text, reading).map_err(|_| declined())?;
    if value.write(Style::Full) == expected {
        Ok(())
    } else {
        Err(declined())
    }
}
