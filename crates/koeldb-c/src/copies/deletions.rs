//! Disabling the removal of obsolete files.

use std::sync::{Mutex, PoisonError};

use koeldb::{Db, DeletionGuard};

/// The guards that the calls for one database hold.
struct Held {
    db: Db,
    guards: Vec<DeletionGuard>,
}

/// The databases whose obsolete files are kept. Entries of closed databases go with the next call.
static HELD: Mutex<Vec<Held>> = Mutex::new(Vec::new());

/// Returns whether two handles have the same open database, which owns its path.
fn is_same(a: &Db, b: &Db) -> bool {
    std::ptr::eq(a.path(), b.path())
}

/// Keeps obsolete files until as many calls of [`enable`] follow.
pub(crate) fn disable(db: &Db) -> koeldb::Result<()> {
    let guard = db.disable_file_deletions()?;
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.retain(|held| held.db.disable_file_deletions().is_ok());
    match held.iter_mut().find(|held| is_same(&held.db, db)) {
        Some(held) => held.guards.push(guard),
        None => held.push(Held {
            db: db.clone(),
            guards: vec![guard],
        }),
    }
    Ok(())
}

/// Undoes one call of [`disable`]. Without one, nothing changes.
pub(crate) fn enable(db: &Db) -> koeldb::Result<()> {
    // Fails if the database is closed.
    let _check = db.disable_file_deletions()?;
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    let at = held.iter().position(|held| is_same(&held.db, db));
    let guard = at.and_then(|at| {
        let guard = held[at].guards.pop();
        if held[at].guards.is_empty() {
            held.swap_remove(at);
        }
        guard
    });
    drop(held);
    // Removes the files, if it was the last guard.
    drop(guard);
    Ok(())
}
