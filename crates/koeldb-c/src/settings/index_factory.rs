//! User-defined indexes of tables, which the engine does not have.

use koeldb::BlockBasedOptions;

use crate::boundary::Failure;
use crate::settings::part::Part;
use crate::settings::read::ReadOptions;

/// Refuses an index that tables would write; none is what they have.
pub(crate) fn set(_: &mut Part<BlockBasedOptions>, text: Option<&[u8]>) -> Result<(), Failure> {
    refuse(text)
}

/// Returns the name of the index of tables: none.
pub(crate) fn name(_: &Part<BlockBasedOptions>) -> Option<&[u8]> {
    None
}

/// Refuses an index that reads would use; none is what they use.
pub(crate) fn set_of_reads(_: &mut ReadOptions, text: Option<&[u8]>) -> Result<(), Failure> {
    refuse(text)
}

/// Returns the name of the index of reads: none.
pub(crate) fn name_of_reads(_: &ReadOptions) -> Option<&[u8]> {
    None
}

fn refuse(text: Option<&[u8]>) -> Result<(), Failure> {
    let text = text.map(String::from_utf8_lossy);
    text.map_or(Ok(()), |text| {
        Err(Failure::unserved(format!("user-defined index {text}")))
    })
}
