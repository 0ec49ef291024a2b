//! Zero-terminated texts that objects lend to C.

use std::ffi::CStr;
use std::path::Path;

/// Bytes followed by a zero, which is not counted.
#[derive(Clone, Debug)]
pub(crate) struct Text(Vec<u8>);

impl Text {
    /// Copies bytes. If they contain a zero, a C string ends there.
    pub(crate) fn new(bytes: impl AsRef<[u8]>) -> Self {
        let mut text = bytes.as_ref().to_vec();
        text.push(0);
        Text(text)
    }

    /// Copies a path.
    pub(crate) fn of_path(path: &Path) -> Self {
        use std::os::unix::ffi::OsStrExt;
        Text::new(path.as_os_str().as_bytes())
    }

    /// Returns the C string.
    pub(crate) fn get(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.0).unwrap_or_default()
    }

    /// Returns the bytes without the final zero.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0[..self.0.len() - 1]
    }

    /// Returns the text; bytes that are not UTF-8 are replaced.
    pub(crate) fn to_text(&self) -> String {
        String::from_utf8_lossy(self.bytes()).into_owned()
    }
}

impl Default for Text {
    fn default() -> Self {
        Text::new([])
    }
}

impl From<&CStr> for Text {
    fn from(text: &CStr) -> Self {
        Text::new(text.to_bytes())
    }
}
