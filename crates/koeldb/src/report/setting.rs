//! A setting without effect.

/// A setting other than the default that the engine accepts and does not read.
///
/// It could only change speed, space or statistics, never answers or durability.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SettingWithoutEffect {
    /// The name of the column family; `None` for an option of the database.
    pub column_family: Option<String>,
    /// The name of the option; members of nested options have dotted names, as in OPTIONS files.
    pub name: String,
    /// The text of the value in use.
    pub value: String,
}

impl std::fmt::Display for SettingWithoutEffect {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.name, self.value)?;
        match &self.column_family {
            Some(name) => write!(f, " of column family {name:?}"),
            None => Ok(()),
        }
    }
}
