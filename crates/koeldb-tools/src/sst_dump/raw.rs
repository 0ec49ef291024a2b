//! Dumps the layout of a table.
//!
//! For a block-based table: footer, metadata, index, and every block with its entries. For a cuckoo
//! table: the cost of lookups.

use std::cmp::Ordering;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use koeldb_base::checksum::context_modifier;
use koeldb_base::key::{self, InternalKey};
use koeldb_base::{Cursor, Error, coding};
use koeldb_table::block_based::format::BlockHandle;
use koeldb_table::block_based::reader::BlockBasedReader;
use koeldb_table::plain::format::RowFormat;
use koeldb_table::reader::{TableCursor, TableReader};
use koeldb_table::source::BlockingSource;

use super::properties::write_lines;
use super::table::OpenTable;
use super::{Args, Trouble};
use crate::text::hex;

const RULE: &str = "--------------------------------------";

/// Runs `--command=raw`: writes the dump to a text file beside the table, and returns its path.
pub(super) fn write(table: &OpenTable, args: &Args) -> Result<PathBuf, Trouble> {
    let path = table.path.with_extension("");
    let mut name = path.into_os_string();
    name.push("_dump.txt");
    let path = PathBuf::from(name);
    #[expect(clippy::disallowed_methods, reason = "a report, no file of a database")]
    let file = std::fs::File::create(&path)?;
    let mut out = BufWriter::new(file);
    let mut dump = |reader: &BlockBasedReader| -> Result<(), Trouble> {
        let mut dump = Dump {
            table,
            reader,
            with_seqno: args.show_sequence_number_type,
            out: &mut out,
        };
        dump.write_footer()?;
        dump.write_metadata()?;
        dump.write_index()?;
        dump.write_tombstones()?;
        dump.write_data()?;
        Ok(())
    };
    match &*table.reader {
        TableReader::BlockBased(reader) => dump(reader)?,
        TableReader::Undated(undated) => dump(undated.stored())?,
        TableReader::Embedded(embedded) => dump(embedded.stored())?,
        TableReader::Cuckoo(cuckoo) => {
            writeln!(out, "Table Properties:\n{RULE}")?;
            write_lines(table, "  ", ": ", &mut out)?;
            writeln!(out, "\nHash Table:\n{RULE}\n{}", cuckoo.whole()?.examine()?)?;
        }
        TableReader::Plain(plain) => write_rows(table, plain.format(), &mut out)?,
    }
    out.flush()?;
    Ok(path)
}

/// Writes a plain table's properties, row encoding and user key length.
fn write_rows(table: &OpenTable, format: RowFormat, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "Table Properties:\n{RULE}")?;
    write_lines(table, "  ", ": ", out)?;
    writeln!(
        out,
        "\nRows:\n{RULE}\n  encoding: {:?}\n  user key length: {}",
        format.encoding, format.user_key_bytes
    )
}

/// The writer of the text dump of one block-based table.
struct Dump<'a, W: Write> {
    table: &'a OpenTable,
    reader: &'a BlockBasedReader,
    with_seqno: bool,
    out: W,
}

impl<W: Write> Dump<'_, W> {
    /// Writes a section title and a rule below it.
    fn title(&mut self, title: &str) -> Result<(), Trouble> {
        writeln!(self.out, "{title}\n{RULE}")?;
        Ok(())
    }

    /// Writes the footer: metaindex and index handles, magic number, format version, checksum type.
    fn write_footer(&mut self) -> Result<(), Trouble> {
        self.title("Footer Details:")?;
        let footer = self.reader.footer();
        for (name, handle) in [("metaindex", footer.metaindex), ("index", footer.index)] {
            let (offset, size) = (handle.offset, handle.size);
            let encoded = hex(&handle.to_vec());
            writeln!(
                self.out,
                "  {name} handle: {encoded} offset: {offset} size: {size}"
            )?;
        }
        writeln!(self.out, "  table_magic_number: {}", footer.kind.magic())?;
        writeln!(self.out, "  format version: {}\n", footer.format_version)?;
        self.title("Block Checksum Type Legend:")?;
        let names = ["kNoChecksum", "kCRC32c", "kxxHash", "kxxHash64", "kXXH3"];
        for (number, name) in names.iter().enumerate() {
            writeln!(self.out, "  {number} = {name}")?;
        }
        let kind = footer.checksum.kind.to_byte();
        writeln!(self.out, "  (This file uses checksum type: {kind})\n")?;
        Ok(())
    }

    /// Writes a block's place, compression type, and checksum without its offset-dependent part.
    fn write_trailer(&mut self, what: &str, handle: BlockHandle) -> Result<(), Trouble> {
        let end = handle.offset.saturating_add(handle.size);
        let trailer = self.reader.file().read_bytes(end, 5)?;
        let compression = trailer.first().copied().unwrap_or(0);
        let stored = coding::fixed32_at(&trailer, 1).unwrap_or(0);
        let context = self.reader.footer().checksum;
        // Without the part that depends on the offset, equal blocks show equal checksums.
        let checksum = stored.wrapping_sub(context_modifier(context.base, handle.offset));
        writeln!(
            self.out,
            "  {what} block checksum type: {}  checksum value: {checksum:#x}  offset: {}  size: {}  compression type: {compression}",
            context.kind.to_byte(),
            handle.offset,
            handle.size
        )?;
        Ok(())
    }

    /// Writes the metaindex, the handle and trailer of each meta block, and the properties.
    fn write_metadata(&mut self) -> Result<(), Trouble> {
        self.title("Metaindex Details:")?;
        self.write_trailer("Metaindex", self.reader.footer().metaindex)?;
        let blocks: Vec<(String, BlockHandle)> = self
            .reader
            .metaindex()
            .iter()
            .map(|(name, handle)| (String::from_utf8_lossy(name).into_owned(), handle))
            .collect();
        for (name, handle) in blocks {
            writeln!(self.out, "  {name} block handle: {}", hex(&handle.to_vec()))?;
            self.write_trailer(&name, handle)?;
        }
        writeln!(self.out)?;
        self.title("Table Properties:")?;
        write_lines(self.table, "  ", ": ", &mut self.out)?;
        writeln!(self.out)?;
        Ok(())
    }

    /// Writes the index: the separator key and the block handle of each data block.
    fn write_index(&mut self) -> Result<(), Trouble> {
        self.title("Index Details:")?;
        writeln!(
            self.out,
            "  Block key hex dump: Data block handle\n  Block key ascii\n"
        )?;
        for (separator, handle) in self.data_blocks()? {
            let encoded = hex(&handle.to_vec());
            let (offset, size) = (handle.offset, handle.size);
            writeln!(
                self.out,
                "  HEX    {}: {encoded} offset {offset} size {size}",
                hex(&separator)
            )?;
            writeln!(self.out, "  ASCII  {}\n  ------", spaced(&separator))?;
        }
        writeln!(self.out)?;
        Ok(())
    }

    /// Returns the index key and the handle of each data block, in file order.
    fn data_blocks(&self) -> Result<Vec<(Vec<u8>, BlockHandle)>, Trouble> {
        let mut blocks = Vec::new();
        self.reader.for_each_data_block(|separator, handle| {
            blocks.push((separator.to_vec(), handle));
            Ok(())
        })?;
        Ok(blocks)
    }

    /// Writes the range deletions of the table, if it has any.
    fn write_tombstones(&mut self) -> Result<(), Trouble> {
        let Some(tombstones) = self.reader.tombstones() else {
            return Ok(());
        };
        let tombstones: Vec<_> = tombstones.tombstones().collect();
        self.title("Range deletions:")?;
        for tombstone in tombstones {
            let (start, end) = (&tombstone.start, &tombstone.end);
            writeln!(
                self.out,
                "  HEX    {}  seq: {}  type: 15 : {}",
                hex(start),
                tombstone.seqno,
                hex(end)
            )?;
            writeln!(
                self.out,
                "  ASCII  {}: {}\n  ------",
                spaced(start),
                spaced(end)
            )?;
        }
        writeln!(self.out)?;
        Ok(())
    }

    /// Writes the trailer and the entries of each data block, then the summary of block sizes.
    fn write_data(&mut self) -> Result<(), Trouble> {
        let blocks = self.data_blocks()?;
        let mut cursor = self.table.cursor();
        cursor.seek_to_first().map_err(Error::from)?;
        for (number, (separator, handle)) in (1..).zip(&blocks) {
            let title = format!("Data Block # {number} @ {}", hex(&handle.to_vec()));
            writeln!(self.out, "{title}")?;
            self.write_trailer("Data", *handle)?;
            writeln!(self.out, "{RULE}")?;
            let is_last = number == blocks.len();
            while cursor.valid() && (is_last || self.belongs(cursor.key(), separator)) {
                self.write_entry(&cursor)?;
                cursor.next().map_err(Error::from)?;
            }
            writeln!(self.out)?;
        }
        self.write_summary(&blocks)
    }

    /// Returns whether an internal key is at or before `separator`, the index key of a data block.
    fn belongs(&self, internal: &[u8], separator: &[u8]) -> bool {
        let order = &self.table.order;
        let ordering = if self.table.properties().index_key_is_user_key != 0 {
            order.compare(key::user_key(internal), separator)
        } else {
            order.compare_internal(internal, separator)
        };
        ordering != Ordering::Greater
    }

    /// Writes the entry at the cursor in hexadecimal and as characters.
    fn write_entry(&mut self, cursor: &TableCursor<'_, BlockingSource>) -> Result<(), Trouble> {
        let (key, value) = (InternalKey::parse(cursor.key())?, cursor.value());
        let seqno = if self.with_seqno {
            format!("  seq: {}  type: {} ", key.seqno, key.value_type as u8)
        } else {
            String::new()
        };
        writeln!(
            self.out,
            "  HEX    {}{seqno}: {}",
            hex(key.user_key),
            hex(value)
        )?;
        let (key, value) = (spaced(key.user_key), spaced(value));
        writeln!(self.out, "  ASCII  {key}: {value}\n  ------")?;
        Ok(())
    }

    /// Writes the number of data blocks and their minimum, maximum and mean size in bytes.
    #[expect(clippy::cast_precision_loss, reason = "a mean is an approximation")]
    fn write_summary(&mut self, blocks: &[(Vec<u8>, BlockHandle)]) -> Result<(), Trouble> {
        let sizes = || blocks.iter().map(|(_, handle)| handle.size);
        self.title("Data Block Summary:")?;
        writeln!(self.out, "  # data blocks: {}", blocks.len())?;
        writeln!(
            self.out,
            "  min data block size: {}",
            sizes().min().unwrap_or(0)
        )?;
        writeln!(
            self.out,
            "  max data block size: {}",
            sizes().max().unwrap_or(0)
        )?;
        let average = sizes().sum::<u64>() as f64 / blocks.len().max(1) as f64;
        writeln!(self.out, "  avg data block size: {average:.6}")?;
        Ok(())
    }
}

/// Formats each byte as a character and a blank; unprintable bytes as dots.
fn spaced(bytes: &[u8]) -> String {
    let printable = |byte: &u8| {
        if byte.is_ascii_graphic() {
            char::from(*byte)
        } else {
            '.'
        }
    };
    bytes
        .iter()
        .flat_map(|byte| [printable(byte), ' '])
        .collect()
}
