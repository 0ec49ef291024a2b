//! Merge operands modify a value without reading it first: `cargo run --example merge_operator`.

use koeldb::{BoxError, Db, MergeOperands, MergeOperator, Options, Result};

/// Keeps the largest number ever written. Values are eight bytes, least significant first.
struct Maximum;

fn number(bytes: &[u8]) -> Result<u64, BoxError> {
    Ok(u64::from_le_bytes(
        bytes.try_into().map_err(|_| "a number takes eight bytes")?,
    ))
}

impl MergeOperator for Maximum {
    fn name(&self) -> &str {
        "example.Maximum"
    }

    fn full_merge(
        &self,
        _key: &[u8],
        existing: Option<&[u8]>,
        operands: MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<(), BoxError> {
        let mut largest = existing.map_or(Ok(0), number)?;
        for operand in operands {
            largest = largest.max(number(operand)?);
        }
        result.extend_from_slice(&largest.to_le_bytes());
        Ok(())
    }

    /// Operands can be combined, so the engine may merge them early.
    fn partial_merge(
        &self,
        key: &[u8],
        operands: MergeOperands<'_>,
        result: &mut Vec<u8>,
    ) -> Result<bool, BoxError> {
        self.full_merge(key, None, operands, result).map(|()| true)
    }
}

fn main() -> Result<()> {
    let path = std::env::temp_dir().join(format!("koeldb-merge-operator-{}", std::process::id()));
    let mut options = Options::new();
    options.create_if_missing(true).set_merge_operator(Maximum);
    let db = Db::open(&options, &path)?;
    for height in [7_u64, 42, 12] {
        db.merge("highest jump", height.to_le_bytes())?;
    }
    db.flush()?;
    db.merge("highest jump", 3_u64.to_le_bytes())?;
    let value = db.get("highest jump")?.expect("the key was written");
    let highest = number(&value).expect("eight bytes were written");
    println!("highest of the jumps 7, 42, 12 and 3: {highest}");
    assert_eq!(highest, 42);

    // An operand that the operator rejects is an error for readers of the key, not a wrong value.
    db.merge("broken", "not a number")?;
    let error = db.get("broken").expect_err("twelve bytes are no number");
    println!("a read of a key with a rejected operand fails, as it should: {error}");
    db.close()?;
    Db::destroy(&Options::new(), &path)
}
