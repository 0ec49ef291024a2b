//! Declarations of options, in tables written with [`option_section!`].
//!
//! A table has name, type, default, range, release, mutability, effect and documentation of each
//! option. From it, the macro creates the struct with its defaults, setters and getters, and the
//! rows of the [`registry`](super::registry).

use std::time::Duration;

/// A conversion between the type of an option's field and that of its setter and getter.
pub(crate) trait View<Field, Api> {
    /// Converts the public value to the stored one.
    fn store(api: Api) -> Field;
    /// Converts the stored value to the public one.
    fn load(field: &Field) -> Api;
}

/// The conversion of counts between `i32` fields, as in RocksDB, and `u32` in setters.
pub(crate) struct Count;

impl View<i32, u32> for Count {
    fn store(api: u32) -> i32 {
        i32::try_from(api).unwrap_or(i32::MAX)
    }

    fn load(field: &i32) -> u32 {
        u32::try_from(*field).unwrap_or(0)
    }
}

/// The conversion of durations to fields in whole seconds.
pub(crate) struct Seconds;
/// The conversion of durations to fields in milliseconds.
pub(crate) struct Millis;
/// The conversion of durations to fields in microseconds.
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
/// [effect mutability "since"] name: Type = default, "unit and range",
///     setter(argument: Type as View), getter;
/// ```
///
/// with effect `honoured`, `accepted` or `refused`, and mutability `mutable` or `fixed`; setter and
/// getter may be left out where they are written by hand. A declined row has no accessors; it is
/// honoured if it ends with `, by setter`, where a plug-in is set in code, and refused otherwise.
macro_rules! option_section {
    (
        $(#[$meta:meta])*
        $vis:vis struct $Type:ident, $section:literal;
        options $rows:tt
        declined $declined:tt
        removed { $([$removed_mutability:ident] $removed:ident $(-> $successor:ident)? $removed_doc:literal;)* }
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
                        successor: option_section!(@successor $($successor)?),
                        documentation: $removed_doc,
                    },
                )*];
                REMOVED
            }

            fn default_texts() -> &'static [(&'static str, String)] {
                static TEXTS: std::sync::OnceLock<Vec<(&'static str, String)>> =
                    std::sync::OnceLock::new();
                TEXTS.get_or_init($crate::options::registry::portable_defaults::<Self>)
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
        $(option_section!(@accessors $section $Target $place $rows);)*
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
        [$declined_mutability:ident $declined_since:literal] $declined:ident : $declined_kind:ty = $declined_default:expr $(, by $declined_setter:ident)?;
    )* }) => {
        impl $Type {
            fn option_rows() -> &'static [$crate::options::registry::Row<Self>] {
                static ROWS: &[$crate::options::registry::Row<$Type>] = &[
                    $($crate::options::registry::Row {
                        name: stringify!($field),
                        since: $since,
                        effect: option_section!(@effect $effect),
                        setter: option_section!(@setter $($setter)?),
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
                        members_without_effect: |source, path, out| {
                            $crate::options::registry::OptionValue::members_without_effect(
                                &source.$field, path, out,
                            );
                        },
                    },)*
                    $($crate::options::registry::Row {
                        name: stringify!($declined),
                        since: $declined_since,
                        effect: option_section!(@declined_effect $($declined_setter)?),
                        setter: option_section!(@setter $($declined_setter)?),
                        mutable: option_section!(@mutable $declined_mutability),
                        range: option_section!(@declined_range $($declined_setter)?),
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
                        members_without_effect: |_, _, _| {},
                    },)*
                ];
                ROWS
            }
        }
    };

    (@accessors $section:literal $Target:ident $place:tt { $(
        $(#[doc = $doc:literal])+
        [$effect:ident $mutability:ident $since:literal] $field:ident : $kind:ty = $default:expr, $range:literal
        $(, $setter:ident ( $argument:ident : $api:ty $(as $view:ident)? ), $getter:ident)? ;
    )* }) => {
        #[doc = concat!("Options of the section `", $section, "`, in its order.")]
        impl $Target {
            $(option_section! {
                @accessor $place $effect $field ($default) $range [$($doc)+]
                $($setter ($argument: $api $(, $view)?) $getter)?
            })*
        }
    };
    // `docs/options.md` lists options without effect; among the methods they would hide the others.
    (@accessor $place:tt accepted $($rest:tt)*) => {
        option_section!(@method [#[doc(hidden)]] $place accepted $($rest)*);
    };
    (@accessor $($rest:tt)*) => { option_section!(@method [] $($rest)*); };
    (@method [$(#[$hidden:meta])?] $place:tt $effect:ident $field:ident ($default:expr) $range:literal [$($doc:literal)+]) => {};
    (@method [$(#[$hidden:meta])?] $place:tt $effect:ident $field:ident ($default:expr) $range:literal [$($doc:literal)+]
        $setter:ident ($argument:ident : $api:ty $(, $view:ident)?) $getter:ident
    ) => {
        $(#[$hidden])?
        $(#[doc = $doc])+
        #[doc = ""]
        #[doc = concat!("Sets the option `", stringify!($field), "`. Default: `", stringify!($default), "`. ", $range)]
        #[doc = ""]
        #[doc = option_section!(@effect_doc $effect)]
        pub fn $setter(&mut self, $argument: $api) -> &mut Self {
            let field = &mut option_section!(@place self $place $field);
            *field = option_section!(@store $argument $(, $view)?);
            self
        }

        $(#[$hidden])?
        #[doc = concat!("The option `", stringify!($field), "`.")]
        #[must_use]
        pub fn $getter(&self) -> $api {
            option_section!(@load option_section!(@place self $place $field) $(, $view)?)
        }
    };

    (@place $this:ident { $(. $path:ident)? } $field:ident) => { $this $(. $path)? . $field };
    (@store $argument:ident) => { $argument };
    (@store $argument:ident, $view:ident) => {
        <$crate::options::declare::$view as $crate::options::declare::View<_, _>>::store($argument)
    };
    (@load $field:expr) => { $field };
    (@load $field:expr, $view:ident) => {
        <$crate::options::declare::$view as $crate::options::declare::View<_, _>>::load(&$field)
    };
    (@setter) => { None };
    (@setter $setter:ident) => { Some(stringify!($setter)) };
    (@successor) => { None };
    (@successor $successor:ident) => { Some(stringify!($successor)) };
    (@mutable mutable) => { true };
    (@mutable fixed) => { false };
    (@effect honoured) => { $crate::options::registry::Effect::Honoured };
    (@effect accepted) => { $crate::options::registry::Effect::Accepted };
    (@effect refused) => { $crate::options::registry::Effect::Refused };
    (@declined_effect) => { $crate::options::registry::Effect::Refused };
    (@declined_effect $setter:ident) => { $crate::options::registry::Effect::Honoured };
    (@declined_range) => { "only the default is accepted" };
    (@declined_range $setter:ident) => { "Set in code; as a text only the default is accepted." };
    (@effect_doc honoured) => { "" };
    (@effect_doc accepted) => { "Accepted without effect; an open announces it." };
    (@effect_doc refused) => { "Only the default is accepted." };
}

pub(crate) use option_section;
