//! Each option is declared once, in a table written with [`option_section!`]: its name, type, default, range,
//! release, mutability, effect and documentation. The macro makes of it the struct and its defaults, setters and
//! getters, and one [`Row`] per option, through which texts are read and written and [`OptionInfo`] is made.

use std::time::Duration;

use koeldb_base::{Error, ErrorKind};

use super::config::{ConfigOptions, IgnoredOption};
use super::grammar;

/// What setting an option does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Effect {
    /// The engine obeys it.
    Full,
    /// Kept and written back; an engine that obeys it is to come.
    Later,
    /// Kept and written back, without effect by design.
    None,
    /// Only the default is accepted.
    DefaultOnly,
    /// A name of older releases: any value is accepted and dropped.
    Removed,
}

/// What is known of one option.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct OptionInfo {
    /// The name in strings and OPTIONS files.
    pub name: &'static str,
    /// The section of an OPTIONS file, or the struct, that it belongs to: `DBOptions`,
    /// `CFOptions/compression_opts`.
    pub section: &'static str,
    /// The type of its value: `u64`, `bool`, `enum{…}`.
    pub kind: String,
    /// The default as it is written.
    pub default: String,
    /// Unit, range and special values; may be empty.
    pub range: &'static str,
    /// Whether it may be changed while the database is open.
    pub mutable: bool,
    /// What setting it does.
    pub effect: Effect,
    /// The first release of RocksDB that knows the name.
    pub since: &'static str,
    /// What it means.
    pub documentation: String,
}

/// Why a text was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RefusalKind {
    /// Nobody knows the name.
    UnknownName,
    /// The name or id is known, and the engine does not have what it asks for; or the id is not known.
    Unsupported,
    /// The text is not a value of the option.
    Invalid,
}

/// A text that was not taken, and why.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub(crate) kind: RefusalKind,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Refusal {
            kind: RefusalKind::Invalid,
            message: message.into(),
        }
    }

    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Refusal {
            kind: RefusalKind::Unsupported,
            message: message.into(),
        }
    }

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
        Error::with_kind(kind, refusal.message)
    }
}

/// How texts are read, and where what was skipped is noted.
pub(crate) struct Reading {
    pub(crate) ignore_unknown: bool,
    pub(crate) ignore_unsupported: bool,
    /// Only names that may change at run time.
    pub(crate) mutable_only: bool,
    pub(crate) ignored: Vec<IgnoredOption>,
}

impl Reading {
    pub(crate) fn new(config: &ConfigOptions) -> Self {
        Reading {
            ignore_unknown: config.ignore_unknown_options,
            ignore_unsupported: config.ignore_unsupported_options,
            mutable_only: false,
            ignored: Vec::new(),
        }
    }

    /// Passes a refusal on, or notes it if the configuration says that it may be ignored.
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

/// How much is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Every name.
    Full,
    /// Names that RocksDB 7.8 knows, and others whose value is not the default: what all readers from 7.8 to
    /// 11.9 accept as long as no newer option is used.
    Portable,
}

/// A type that option texts are read into and written from.
pub(crate) trait OptionValue {
    /// The type's name in [`OptionInfo::kind`].
    fn kind() -> String
    where
        Self: Sized;

    /// Takes the value that `text` says; a struct changes only the members it names. `name` is for messages.
    fn read(&mut self, name: &str, text: &str, reading: &mut Reading) -> Result<(), Refusal>;

    /// Takes `text` for the member called `member`.
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

    /// The text that [`OptionValue::read`] takes for the same value; `None` if there is none.
    fn write(&self, style: Style) -> Option<String>;
}

/// One option of the section `S`.
pub(crate) struct Row<S: 'static> {
    pub(crate) name: &'static str,
    pub(crate) since: &'static str,
    pub(crate) effect: Effect,
    pub(crate) mutable: bool,
    pub(crate) range: &'static str,
    pub(crate) documentation: &'static [&'static str],
    pub(crate) kind: fn() -> String,
    pub(crate) read: fn(&mut S, &str, &str, &mut Reading) -> Result<(), Refusal>,
    pub(crate) read_member: fn(&mut S, &str, &str, &str, &mut Reading) -> Result<(), Refusal>,
    pub(crate) write: fn(&S, Style) -> Option<String>,
}

/// A name of older releases.
pub(crate) struct Removed {
    pub(crate) name: &'static str,
    pub(crate) mutable: bool,
    pub(crate) documentation: &'static str,
}

/// A struct of options: a section of an OPTIONS file, or a nested struct.
pub(crate) trait Section: Default + Clone + 'static {
    /// As in the table of options: `DBOptions`, `CFOptions/compression_opts`.
    const NAME: &'static str;

    /// The options in the order they are written.
    fn rows() -> &'static [Row<Self>];

    /// The names of older releases.
    fn removed() -> &'static [Removed];

    /// Other names of options.
    fn aliases() -> &'static [(&'static str, &'static str)];

    /// Takes a short form of the whole struct, if `text` is one.
    fn read_short_form(&mut self, name: &str, text: &str) -> Option<Result<(), Refusal>> {
        let _ = (name, text);
        None
    }
}

/// Whether `since` is RocksDB 7.8 or older.
pub(crate) fn is_known_to_7_8(since: &str) -> bool {
    let number = since.trim_start_matches("<=");
    let mut parts = number.split('.').map(|part| part.parse::<u32>());
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) <= (7, 8),
        _ => true,
    }
}

/// Whether the section has an option, an alias or a removed option of this name or the name of its member.
pub(crate) fn knows<S: Section>(name: &str) -> bool {
    let head = name.split_once('.').map_or(name, |(head, _)| head);
    S::rows().iter().any(|row| row.name == head)
        || S::aliases().iter().any(|(alias, _)| *alias == head)
}

/// Whether the name is one that older releases had.
pub(crate) fn was_removed<S: Section>(name: &str) -> bool {
    S::removed().iter().any(|removed| removed.name == name)
}

/// Sets one option or member by name. `path` stands in front of the name in messages.
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
                "Option not changeable: {} is an option of older releases",
                full(name)
            )))
        } else {
            Ok(())
        };
    }
    Err(Refusal::unknown(if path.is_empty() {
        format!("Extra option not recognized: {name}")
    } else {
        format!("Unrecognized option: {}", full(name))
    }))
}

/// The names and texts of a section that are to be written.
pub(crate) fn written<S: Section>(source: &S, style: Style) -> Vec<(&'static str, String)> {
    let default = S::default();
    S::rows()
        .iter()
        .filter_map(|row| {
            let text = (row.write)(source, style)?;
            let leave_out = style == Style::Portable
                && !is_known_to_7_8(row.since)
                && (row.write)(&default, style).as_ref() == Some(&text);
            (!leave_out).then_some((row.name, text))
        })
        .collect()
}

/// The names and texts of a section that differ from the defaults.
pub(crate) fn differing<S: Section>(source: &S) -> Vec<(&'static str, String)> {
    let defaults = written(&S::default(), Style::Full);
    let mut texts = written(source, Style::Full);
    texts.retain(|pair| !defaults.contains(pair));
    texts
}

/// Shows a section by names and texts.
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

/// What is known of a section's options.
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
}

/// How a field looks in the API, where it is not as it is stored.
pub(crate) trait View<Field, Api> {
    fn store(api: Api) -> Field;
    fn load(field: &Field) -> Api;
}

/// A count: stored as RocksDB's `int`, given as `u32`.
pub(crate) struct Count;

impl View<i32, u32> for Count {
    fn store(api: u32) -> i32 {
        i32::try_from(api).unwrap_or(i32::MAX)
    }

    fn load(field: &i32) -> u32 {
        u32::try_from(*field).unwrap_or(0)
    }
}

/// A time in whole seconds.
pub(crate) struct Seconds;
/// A time in milliseconds.
pub(crate) struct Millis;
/// A time in microseconds.
pub(crate) struct Micros;

impl View<u64, Duration> for Seconds {
    fn store(api: Duration) -> u64 {
        api.as_secs()
    }

    fn load(field: &u64) -> Duration {
        Duration::from_secs(*field)
    }
}

impl View<u32, Duration> for Seconds {
    fn store(api: Duration) -> u32 {
        u32::try_from(api.as_secs()).unwrap_or(u32::MAX)
    }

    fn load(field: &u32) -> Duration {
        Duration::from_secs(u64::from(*field))
    }
}

impl View<u64, Duration> for Millis {
    fn store(api: Duration) -> u64 {
        u64::try_from(api.as_millis()).unwrap_or(u64::MAX)
    }

    fn load(field: &u64) -> Duration {
        Duration::from_millis(*field)
    }
}

impl View<u64, Duration> for Micros {
    fn store(api: Duration) -> u64 {
        u64::try_from(api.as_micros()).unwrap_or(u64::MAX)
    }

    fn load(field: &u64) -> Duration {
        Duration::from_micros(*field)
    }
}

/// Declares a struct of options. A row reads
///
/// ```text
/// /// Documentation.
/// [effect mutability "since"] name: Type = default, "unit and range", setter(argument: Type as View), getter;
/// ```
///
/// with effect one of `core`, `later`, `ignored`, and mutability `mutable` or `fixed`; setter and getter may be
/// left out where they are written by hand. A declined row has neither effect nor accessors.
macro_rules! option_section {
    (
        $(#[$meta:meta])*
        $vis:vis struct $Type:ident, $section:literal;
        options $rows:tt
        declined $declined:tt
        removed { $([$removed_mutability:ident] $removed:ident $removed_doc:literal;)* }
        aliases { $($alias:ident = $name:ident;)* }
        accessors { $($Target:ident $place:tt;)* }
        $(short_form $short:path;)?
    ) => {
        option_section!(@struct { $(#[$meta])* $vis } $Type $rows);
        option_section!(@rows $Type $rows $declined);
        impl $crate::options::registry::Section for $Type {
            const NAME: &'static str = $section;

            fn rows() -> &'static [$crate::options::registry::Row<Self>] {
                Self::option_rows()
            }

            fn removed() -> &'static [$crate::options::registry::Removed] {
                static REMOVED: &[$crate::options::registry::Removed] = &[$(
                    $crate::options::registry::Removed {
                        name: stringify!($removed),
                        mutable: option_section!(@mutable $removed_mutability),
                        documentation: $removed_doc,
                    },
                )*];
                REMOVED
            }

            fn aliases() -> &'static [(&'static str, &'static str)] {
                &[$((stringify!($alias), stringify!($name)),)*]
            }

            $(fn read_short_form(
                &mut self,
                name: &str,
                text: &str,
            ) -> Option<Result<(), $crate::options::registry::Refusal>> {
                $short(self, name, text)
            })?
        }
        $(option_section!(@accessors $Target $place $rows);)*
    };

    (@struct { $(#[$meta:meta])* $vis:vis } $Type:ident { $(
        $(#[doc = $doc:literal])+
        [$effect:ident $mutability:ident $since:literal] $field:ident : $kind:ty = $default:expr, $range:literal
        $(, $setter:ident ( $argument:ident : $api:ty $(as $view:ident)? ), $getter:ident)? ;
    )* }) => {
        $(#[$meta])*
        #[derive(Clone)]
        $vis struct $Type {
            $(pub(crate) $field: $kind,)*
        }

        impl std::fmt::Debug for $Type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                $crate::options::registry::debug(self, stringify!($Type), f)
            }
        }

        impl Default for $Type {
            fn default() -> Self {
                $Type { $($field: $default,)* }
            }
        }
    };

    (@rows $Type:ident { $(
        $(#[doc = $doc:literal])+
        [$effect:ident $mutability:ident $since:literal] $field:ident : $kind:ty = $default:expr, $range:literal
        $(, $setter:ident ( $argument:ident : $api:ty $(as $view:ident)? ), $getter:ident)? ;
    )* } { $(
        $(#[doc = $declined_doc:literal])+
        [$declined_mutability:ident $declined_since:literal] $declined:ident : $declined_kind:ty = $declined_default:expr;
    )* }) => {
        impl $Type {
            fn option_rows() -> &'static [$crate::options::registry::Row<Self>] {
                static ROWS: &[$crate::options::registry::Row<$Type>] = &[
                    $($crate::options::registry::Row {
                        name: stringify!($field),
                        since: $since,
                        effect: option_section!(@effect $effect),
                        mutable: option_section!(@mutable $mutability),
                        range: $range,
                        documentation: &[$($doc),+],
                        kind: <$kind as $crate::options::registry::OptionValue>::kind,
                        read: |target, name, text, reading| {
                            $crate::options::registry::OptionValue::read(&mut target.$field, name, text, reading)
                        },
                        read_member: |target, name, member, text, reading| {
                            $crate::options::registry::OptionValue::read_member(
                                &mut target.$field, name, member, text, reading,
                            )
                        },
                        write: |source, style| {
                            $crate::options::registry::OptionValue::write(&source.$field, style)
                        },
                    },)*
                    $($crate::options::registry::Row {
                        name: stringify!($declined),
                        since: $declined_since,
                        effect: $crate::options::registry::Effect::DefaultOnly,
                        mutable: option_section!(@mutable $declined_mutability),
                        range: "only the default is accepted",
                        documentation: &[$($declined_doc),+],
                        kind: <$declined_kind as $crate::options::registry::OptionValue>::kind,
                        read: |_, name, text, reading| {
                            let default: $declined_kind = $declined_default;
                            $crate::options::registry::read_declined(default, name, text, reading)
                        },
                        read_member: |_, name, member, _, _| {
                            Err($crate::options::registry::Refusal::unsupported(format!(
                                "{name}.{member} is not supported: only the default of {name} is accepted"
                            )))
                        },
                        write: |_, style| {
                            let default: $declined_kind = $declined_default;
                            $crate::options::registry::OptionValue::write(&default, style)
                        },
                    },)*
                ];
                ROWS
            }
        }
    };

    (@accessors $Target:ident $place:tt { $(
        $(#[doc = $doc:literal])+
        [$effect:ident $mutability:ident $since:literal] $field:ident : $kind:ty = $default:expr, $range:literal
        $(, $setter:ident ( $argument:ident : $api:ty $(as $view:ident)? ), $getter:ident)? ;
    )* }) => {
        impl $Target {
            $(option_section! {
                @accessor $place $effect $field $range [$($doc)+]
                $($setter ($argument: $api $(, $view)?) $getter)?
            })*
        }
    };
    (@accessor $place:tt $effect:ident $field:ident $range:literal [$($doc:literal)+]) => {};
    (@accessor $place:tt $effect:ident $field:ident $range:literal [$($doc:literal)+]
        $setter:ident ($argument:ident : $api:ty $(, $view:ident)?) $getter:ident
    ) => {
        $(#[doc = $doc])+
        #[doc = ""]
        #[doc = concat!("Sets the option `", stringify!($field), "`. ", $range)]
        #[doc = ""]
        #[doc = option_section!(@effect_doc $effect)]
        pub fn $setter(&mut self, $argument: $api) -> &mut Self {
            let field = &mut option_section!(@place self $place $field);
            *field = option_section!(@store $argument $(, $view)?);
            self
        }

        #[doc = concat!("The option `", stringify!($field), "`.")]
        #[must_use]
        pub fn $getter(&self) -> $api {
            option_section!(@load option_section!(@place self $place $field) $(, $view)?)
        }
    };

    (@place $this:ident { $(. $path:ident)? } $field:ident) => { $this $(. $path)? . $field };
    (@store $argument:ident) => { $argument };
    (@store $argument:ident, $view:ident) => {
        <$crate::options::registry::$view as $crate::options::registry::View<_, _>>::store($argument)
    };
    (@load $field:expr) => { $field };
    (@load $field:expr, $view:ident) => {
        <$crate::options::registry::$view as $crate::options::registry::View<_, _>>::load(&$field)
    };
    (@mutable mutable) => { true };
    (@mutable fixed) => { false };
    (@effect core) => { $crate::options::registry::Effect::Full };
    (@effect later) => { $crate::options::registry::Effect::Later };
    (@effect ignored) => { $crate::options::registry::Effect::None };
    (@effect_doc core) => { "" };
    (@effect_doc later) => { "Kept and written back; without effect so far." };
    (@effect_doc ignored) => { "Kept and written back; without effect by design." };
}

pub(crate) use option_section;

/// Takes `text` if it says the default.
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
