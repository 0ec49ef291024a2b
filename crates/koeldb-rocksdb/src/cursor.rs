//! The cursors of databases and transactions.

use koeldb::{BatchCursor, DbCursor};

use crate::Error;

/// The engine's iterator behind a raw iterator: of a database or of a transaction.
#[doc(hidden)]
pub enum Cursor {
    /// Of a database.
    Db(Box<DbCursor>),
    /// Of a transaction.
    Transaction(Box<BatchCursor>),
    /// The options were refused: without entries.
    Refused(Error),
}

/// Calls a method of the cursor; the last argument is the result if the options were refused.
macro_rules! each {
    ($cursor:expr, $method:ident($($argument:expr)?), $refused:expr) => {
        match $cursor {
            Cursor::Db(cursor) => cursor.$method($($argument)?),
            Cursor::Transaction(cursor) => cursor.$method($($argument)?),
            Cursor::Refused(_) => $refused,
        }
    };
}
pub(crate) use each;
