//! Texts of objects that C reads: a zero byte follows them.

use std::path::Path;

/// A text with a zero behind it, which is not counted.
#[derive(Clone)]
pub(crate) struct Text(Vec<u8>);

impl Default for Text {
    fn default() -> Self {
        Text::new([])
    }
}

impl Text {
    pub(crate) fn new(bytes: impl AsRef<[u8]>) -> Self {
        let mut text = bytes.as_ref().to_vec();
        text.push(0);
        Text(text)
    }

    /// Returns the bytes, without the zero.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0[..self.0.len() - 1]
    }

    /// Returns a path as text.
    pub(crate) fn of_path(path: &Path) -> Self {
        use std::os::unix::ffi::OsStrExt;
        Text::new(path.as_os_str().as_bytes())
    }
}
