//! Keys and values as columns: rows of fixed width for NumPy, or bytes with offsets for Arrow.
//!
//! `koeldb.arrays` and `koeldb.arrow` make arrays and record batches of them.

use koeldb::{PinnedSlices, WriteBatch};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::arguments::{Range, buffer};
use crate::calls::{Guarded, detached, detached_value};
use crate::chunk::Reader;
use crate::failure::{Failure, Outcome};
use crate::family::Family;
use crate::process::Held;
use crate::reads::NEWEST;
use crate::settings::write_options;
use crate::view::{Buffer, Memory};

/// A column of byte strings, where Python has them.
struct Column<'py> {
    bytes: Buffer<'py>,
    layout: Layout,
}

/// Where the strings of a column are.
enum Layout {
    /// All have this number of bytes.
    Width(usize),
    /// Where each begins, and the last ends; native numbers of 64 bits.
    Offsets(Vec<usize>),
}

/// Returns an error of an argument.
fn invalid(message: impl Into<String>) -> Failure {
    Failure::Python(PyValueError::new_err(message.into()))
}

impl<'py> Column<'py> {
    /// Reads a column: bytes, and a width or offsets.
    fn new(bytes: &Bound<'py, PyAny>, layout: &Bound<'_, PyAny>) -> Outcome<Self> {
        let bytes = buffer(bytes)?;
        let length = bytes.bytes().len();
        if let Ok(width) = layout.extract::<usize>() {
            if width == 0 || length % width != 0 {
                return Err(invalid(format!(
                    "{length} bytes are not whole rows of {width} bytes"
                )));
            }
            let layout = Layout::Width(width);
            return Ok(Column { bytes, layout });
        }
        let offsets = buffer(layout)?;
        let offsets = offsets.bytes().as_chunks::<8>().0.iter();
        #[expect(
            clippy::host_endian_bytes,
            reason = "Arrow's offsets in memory are native"
        )]
        let offsets = offsets.map(|offset| usize::try_from(i64::from_ne_bytes(*offset)));
        let offsets: Vec<usize> = offsets
            .collect::<Result<_, _>>()
            .map_err(|_| invalid("a negative offset"))?;
        if !offsets.is_sorted() || offsets.last().is_some_and(|last| *last > length) {
            return Err(invalid(
                "the offsets are not ascending, or exceed the bytes",
            ));
        }
        let layout = Layout::Offsets(offsets);
        Ok(Column { bytes, layout })
    }

    /// Returns the strings, which must not be used where the GIL is released.
    fn rows(&self) -> Vec<&[u8]> {
        self.layout.rows(self.bytes.bytes())
    }
}

impl Layout {
    /// Divides the bytes of a column.
    fn rows<'a>(&self, bytes: &'a [u8]) -> Vec<&'a [u8]> {
        match self {
            Layout::Width(width) => bytes.chunks_exact(*width).collect(),
            Layout::Offsets(offsets) => {
                let pairs = offsets.windows(2);
                pairs.map(|pair| &bytes[pair[0]..pair[1]]).collect()
            }
        }
    }
}

/// Byte strings in the making, with Arrow's offsets.
struct Builder {
    offsets: Vec<u8>,
    bytes: Vec<u8>,
}

impl Builder {
    /// Returns a builder with room for so many strings, and for as many bytes as those of a like
    /// column.
    fn with_room(rows: usize, bytes: usize) -> Self {
        let mut offsets = Vec::with_capacity(8 * (rows + 1));
        offsets.extend_from_slice(&[0; 8]);
        Builder {
            offsets,
            bytes: Vec::with_capacity(bytes),
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        #[expect(
            clippy::host_endian_bytes,
            reason = "Arrow's offsets in memory are native"
        )]
        self.offsets
            .extend_from_slice(&(self.bytes.len() as u64).to_ne_bytes());
    }

    fn finish(self) -> (Memory, Memory) {
        (Memory::column(self.offsets), Memory::column(self.bytes))
    }
}

/// An iterator over the columns of a range: tuples of the number of rows, the offsets and the bytes
/// of the keys, and those of the values.
#[pyclass(module = "koeldb", frozen)]
pub(crate) struct Columns {
    rows: usize,
    /// `None` at the end.
    reading: Guarded<Option<Reading>>,
}

/// A scan in progress.
struct Reading {
    reader: Held<Reader>,
    /// The sizes of the columns before: to grow new ones step by step copies them again and again.
    last: (usize, usize, usize),
}

type Batch = (usize, (Memory, Memory), (Memory, Memory));

#[pymethods]
impl Columns {
    fn __iter__(slf: Py<Self>) -> Py<Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> Outcome<Option<Batch>> {
        let mut place = self.reading.lock(py)?;
        let Some(Reading { reader, last }) = place.as_mut() else {
            return Ok(None);
        };
        let reader = reader.get_mut()?;
        let (mut keys, mut values) = (
            Builder::with_room(last.0, last.1),
            Builder::with_room(last.0, last.2),
        );
        let mut count = 0;
        let has_more = detached(py, || {
            reader.visit(self.rows, |key, value| {
                keys.push(key);
                values.push(value);
                count += 1;
            })
        });
        *last = (count, keys.bytes.len(), values.bytes.len());
        if !matches!(has_more, Ok(true)) {
            // The rows before an error are lost: none may follow.
            *place = None;
        }
        has_more?;
        Ok((count > 0).then(|| (count, keys.finish(), values.finish())))
    }
}

/// Returns the columns of a range, `rows` at a time.
#[pyfunction]
pub(crate) fn columns(
    py: Python<'_>,
    family: &Bound<'_, Family>,
    start: Option<&Bound<'_, PyAny>>,
    stop: Option<&Bound<'_, PyAny>>,
    prefix: Option<&Bound<'_, PyAny>>,
    reverse: bool,
    rows: usize,
) -> Outcome<Columns> {
    if rows == 0 {
        return Err(invalid("rows must be at least 1"));
    }
    let scan = family
        .get()
        .scan(None, Range::new(start, stop, prefix), reverse, None)?;
    Ok(Columns {
        rows,
        reading: Guarded::new(Some(Reading {
            reader: scan.reader(py, reverse, true)?,
            last: (0, 0, 0),
        })),
    })
}

/// Reads the values of a column of keys.
fn read(
    py: Python<'_>,
    family: &Bound<'_, Family>,
    keys: &Bound<'_, PyAny>,
    layout: &Bound<'_, PyAny>,
) -> Outcome<PinnedSlices> {
    let Column { bytes, layout } = Column::new(keys, layout)?;
    // They may change while the GIL is released.
    let bytes = bytes.bytes().to_vec();
    let family = family.get().handle()?;
    detached_value(py, || {
        family.multi_get_opt(&layout.rows(&bytes), &NEWEST.anywhere)
    })
}

/// Returns the values of a column of keys: the number of rows, a bitmap of those that exist, and
/// the offsets and the bytes of the values.
#[pyfunction]
pub(crate) fn multi_get_column(
    py: Python<'_>,
    family: &Bound<'_, Family>,
    keys: &Bound<'_, PyAny>,
    layout: &Bound<'_, PyAny>,
) -> Outcome<(usize, Memory, (Memory, Memory))> {
    let found = read(py, family, keys, layout)?;
    let mut values = Builder::with_room(found.len(), 0);
    let mut bitmap = vec![0_u8; found.len().div_ceil(8)];
    for (row, value) in found.iter().enumerate() {
        let value = value?;
        bitmap[row / 8] |= u8::from(value.is_some()) << (row % 8);
        values.push(value.unwrap_or_default());
    }
    Ok((found.len(), Memory::column(bitmap), values.finish()))
}

/// Fills rows of fixed width with the values of a column of keys, and a byte for each with whether
/// it exists.
///
/// A row whose key does not exist is left as it is.
#[pyfunction]
pub(crate) fn multi_get_into(
    py: Python<'_>,
    family: &Bound<'_, Family>,
    keys: &Bound<'_, PyAny>,
    layout: &Bound<'_, PyAny>,
    out: &Bound<'_, PyAny>,
    mask: &Bound<'_, PyAny>,
) -> Outcome<usize> {
    let found = read(py, family, keys, layout)?;
    let count = found.len();
    let values: Vec<Option<&[u8]>> = found.iter().collect::<koeldb::Result<_>>()?;
    buffer(mask)?.fill("mask", |mask| {
        if mask.len() != count {
            return Err(invalid(format!(
                "mask has {} bytes, but there are {count} keys",
                mask.len()
            )));
        }
        for (place, value) in mask.iter_mut().zip(&values) {
            *place = u8::from(value.is_some());
        }
        Ok(())
    })?;
    buffer(out)?.fill("out", |out| {
        if count == 0 {
            return Ok(0);
        }
        let width = out.len() / count;
        if width == 0 || width * count != out.len() {
            return Err(invalid(format!(
                "out has {} bytes, which are not {count} rows of one length, one for each key",
                out.len()
            )));
        }
        for (index, (row, value)) in out.chunks_exact_mut(width).zip(&values).enumerate() {
            let Some(value) = value else { continue };
            if value.len() != width {
                return Err(invalid(format!(
                    "the value of key {index} has {} bytes, but a row of out has {width}",
                    value.len()
                )));
            }
            row.copy_from_slice(value);
        }
        Ok(values.iter().flatten().count())
    })
}

/// Sets the values of a column of keys, in one batch.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "Python calls it")]
pub(crate) fn put_columns(
    py: Python<'_>,
    family: &Bound<'_, Family>,
    keys: &Bound<'_, PyAny>,
    key_layout: &Bound<'_, PyAny>,
    values: &Bound<'_, PyAny>,
    value_layout: &Bound<'_, PyAny>,
    sync: bool,
    disable_wal: bool,
) -> Outcome<usize> {
    let (keys, values) = (
        Column::new(keys, key_layout)?,
        Column::new(values, value_layout)?,
    );
    let (keys, values) = (keys.rows(), values.rows());
    if keys.len() != values.len() {
        return Err(invalid(format!(
            "the columns differ in length: {} keys, {} values",
            keys.len(),
            values.len()
        )));
    }
    let family = family.get().handle()?;
    let options = write_options(sync, disable_wal);
    let mut batch = WriteBatch::new();
    for (key, value) in keys.iter().zip(&values) {
        batch.put_cf(family, key, value);
    }
    detached(py, || family.db().write_opt(&batch, &options))?;
    Ok(keys.len())
}
