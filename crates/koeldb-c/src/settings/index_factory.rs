//! User-defined indexes of tables, which the engine does not have.

use koeldb::BlockBasedOptions;

use crate::boundary::Failure;
use crate::settings::part::Part;
use crate::settings::read::ReadOptions;

/// Refuses a user-defined index of tables; null is permitted.
pub(crate) fn set(_: &mut Part<BlockBasedOptions>, text: Option<&[u8]>) -> Result<(), Failure> {
    refuse(text)
}

/// Returns null, the name of the user-defined index of tables.
pub(crate) fn name(_: &Part<BlockBasedOptions>) -> Option<&[u8]> {
    None
}

/// Refuses a user-defined index of reads; null is permitted.
pub(crate) fn set_of_reads(_: &mut ReadOptions, text: Option<&[u8]>) -> Result<(), Failure> {
    refuse(text)
}

/// Returns null, the name of the user-defined index of reads.
pub(crate) fn name_of_reads(_: &ReadOptions) -> Option<&[u8]> {
    None
}

fn refuse(text: Option<&[u8]>) -> Result<(), Failure> {
    let text = text.map(String::from_utf8_lossy);
    text.map_or(Ok(()), |text| {
        Err(Failure::unserved(format!("user-defined index {text}")))
    })
}
