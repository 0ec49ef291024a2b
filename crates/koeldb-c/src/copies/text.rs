//! Texts that C borrows from an object.

use std::ffi::CStr;

/// Bytes followed by a zero, which the caller reads as a C string.
#[derive(Clone, Debug)]
pub(crate) struct Text(Vec<u8>);

impl Text {
    /// Copies bytes. If they contain a zero, C sees the bytes before it.
    pub(crate) fn new(bytes: impl Into<Vec<u8>>) -> Self {
        let mut bytes = bytes.into();
        bytes.push(0);
        Text(bytes)
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

impl From<&std::path::Path> for Text {
    fn from(path: &std::path::Path) -> Self {
        use std::os::unix::ffi::OsStrExt;
        Text::new(path.as_os_str().as_bytes())
    }
}
