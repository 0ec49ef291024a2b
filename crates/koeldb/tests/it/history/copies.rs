//! Copies of a directory in use: checkpoints, backups and secondaries, read by the other engine.
//!
//! Both engines write their backups into one directory.

use std::path::{Path, PathBuf};

use super::model::{Family, Format, Order};
use super::ours::{How, Ours, agree, restore};
use super::theirs::{ENDS, RocksDb};
use super::{Engine, History, options};

/// A checkpoint or a restored backup, and what it has.
pub(super) struct Copy {
    what: &'static str,
    path: PathBuf,
    families: Vec<Family>,
}

/// A part of the error of a secondary whose primary compacts without a pause, as RocksDB does under
/// some options.
const BUSY_PRIMARY: &str = "the primary removed files repeatedly while they were opened";

impl History<'_> {
    fn new_path(&mut self, name: &str) -> PathBuf {
        self.copies_made += 1;
        self.base.join(format!("{name}{}", self.copies_made))
    }

    /// Makes a checkpoint or a backup of the open database, and reads it by KoelDB.
    ///
    /// Copies by KoelDB are read by RocksDB, too, at the end of the turn.
    pub(super) fn copy(&mut self, engine: &mut Engine<'_>) -> Result<(), String> {
        if self.has_paths && !engine.is_ours() {
            // RocksDB makes no copies of several directories.
            return Ok(());
        }
        let backups = self.base.join("backups");
        std::fs::create_dir_all(&backups).unwrap();
        // Of unlogged changes, a copy has those that were flushed.
        let flush = self.may_lose || self.random.chance(1, 2);
        // RocksDB's backups crash at range tombstones in tables of comparators that it does not
        // find.
        let mut families = self.families.iter();
        let has_backups = engine.is_ours()
            || families.all(|f| f.order.is_found_by_name() && f.format == Format::BlockBased);
        let (what, path) = match !has_backups || self.random.chance(1, 2) {
            true => {
                let path = self.new_path("checkpoint");
                self.note(&format!("checkpoint {}", path.display()));
                match engine {
                    Engine::Ours(ours) => ours.checkpoint(&path, flush)?,
                    Engine::Theirs(rocks) => {
                        rocks.execute(&["checkpoint", &path.display().to_string()])?;
                    }
                }
                ("the checkpoint", path)
            }
            false => {
                let path = self.new_path("restored");
                self.note(&format!("backup flush={flush} {}", path.display()));
                match engine {
                    Engine::Ours(ours) => ours.backup(&backups, flush)?,
                    Engine::Theirs(rocks) => {
                        let flush = if flush { "1" } else { "0" };
                        rocks.execute(&["backup", &backups.display().to_string(), flush])?;
                    }
                }
                restore(&backups, &path)?;
                ("the backup", path)
            }
        };
        let copy = Copy {
            what,
            path,
            families: self.families.clone(),
        };
        self.look_at_copy(&copy)?;
        match engine {
            Engine::Ours(_) => self.copies.push(copy),
            Engine::Theirs(_) => std::fs::remove_dir_all(&copy.path).unwrap(),
        }
        Ok(())
    }

    fn look_at_copy(&mut self, copy: &Copy) -> Result<(), String> {
        let mut how = How {
            read_only: self.random.chance(1, 2),
            ..self.how()
        };
        how.database += &format!("wal_dir={};", copy.path.display());
        let ours = match Ours::open(&copy.path, &how) {
            Ok(ours) => ours,
            Err(error) if self.is_permitted(&error) => return Ok(()),
            Err(error) => return Err(format!("{}: {error}", copy.what)),
        };
        let mut engine = Engine::Ours(ours);
        let dump = engine.dump_all(&copy.families)?;
        for (name, expected) in History::expected(&copy.families) {
            agree(&name, copy.what, &expected, &dump[&name])?;
        }
        Ok(())
    }

    /// Reads by RocksDB the copies that KoelDB made in its turn, and removes them.
    pub(super) fn look_at_copies_by_theirs(&mut self, rocks: &mut RocksDb) -> Result<(), String> {
        for copy in std::mem::take(&mut self.copies) {
            let mut fixed = self.fixed.split_inclusive(';').collect::<Vec<_>>();
            fixed.retain(|option| !option.starts_with("wal_dir="));
            let database = options::database(&mut self.random, &fixed.concat());
            let path = copy.path.display().to_string();
            let mut command = vec!["open".to_owned(), "strings".to_owned(), path, database];
            for family in &copy.families {
                let text = self.family_text(family);
                command.extend([family.name.clone(), family.order.name().to_owned(), text]);
            }
            self.note(&format!("RocksDB, {}: {}", copy.what, command.join(" ")));
            let command: Vec<&str> = command.iter().map(String::as_str).collect();
            match rocks.execute(&command) {
                Err(error) if self.is_refusal_of_remade(&error) => {}
                Err(error) => return Err(format!("{}: {error}", copy.what)),
                Ok(_) => {
                    let dump = Engine::Theirs(rocks).dump_all(&copy.families)?;
                    rocks.execute(&["close"])?;
                    for (name, expected) in History::expected(&copy.families) {
                        let what = format!("RocksDB, {}", copy.what);
                        agree(&name, &what, &expected, &dump[&name])?;
                    }
                }
            }
            std::fs::remove_dir_all(&copy.path).unwrap();
        }
        Ok(())
    }

    /// Lets a secondary of KoelDB catch up with RocksDB, and compares it.
    ///
    /// It has the column families that existed when it was opened, without unlogged changes.
    pub(super) fn look_by_our_secondary(&mut self, engine: &mut Engine<'_>) -> Result<(), String> {
        let Engine::Theirs(rocks) = engine else {
            return Ok(());
        };
        if self.may_lose {
            return Ok(());
        }
        rocks.execute(&["flush_wal", "0"])?;
        let secondary = match self.secondary.take() {
            Some(secondary) => {
                self.note("KoelDB catches up");
                match secondary.catch_up() {
                    // It was opened with the options of the column family that is gone.
                    Err(error) if self.is_refusal_of_remade(&error) => return Ok(()),
                    Err(error) if error.contains(BUSY_PRIMARY) => return Ok(()),
                    caught_up => caught_up?,
                }
                secondary
            }
            None => {
                let how = How {
                    secondary: Some(self.base.join("secondary")),
                    ..self.how()
                };
                self.note("KoelDB opens a secondary");
                match Ours::open(&self.db, &how) {
                    Ok(secondary) => secondary,
                    Err(error) if self.is_permitted(&error) => return Ok(()),
                    Err(error) if error.contains(BUSY_PRIMARY) => return Ok(()),
                    Err(error) => return Err(format!("the secondary: {error}")),
                }
            }
        };
        let mut engine = Engine::Ours(secondary);
        for family in &self.families {
            let Engine::Ours(secondary) = &engine else {
                continue;
            };
            if secondary.id_of(&family.name) != Some(family.id) {
                continue;
            }
            let found = engine.dump(family, None)?;
            agree(&family.name, "the secondary", &family.scan(), &found)?;
        }
        if let Engine::Ours(secondary) = engine {
            self.secondary = Some(secondary);
        }
        Ok(())
    }

    /// Reads the open database by a secondary of RocksDB.
    pub(super) fn look_by_their_secondary(
        &mut self,
        ours: &Ours,
        rocks: &mut RocksDb,
    ) -> Result<(), String> {
        // RocksDB's secondaries take a removed blob file without any live value for a lost one if
        // tables refer to older ones, whoever removed it, and keep the state before it. They look for
        // tables in the first of several directories only.
        if self.may_lose || self.has_blobs || self.has_paths {
            return Ok(());
        }
        ours.flush_wal(false)?;
        let path = |path: &Path| path.display().to_string();
        let mut command = vec![
            "secondary".to_owned(),
            path(&self.db),
            path(&self.base.join("secondary")),
            self.fixed.clone(),
        ];
        for family in self.families.clone() {
            let text = self.family_text(&family);
            command.extend([family.name.clone(), family.order.name().to_owned(), text]);
        }
        self.note(&format!("RocksDB: {}", command.join(" ")));
        let command: Vec<&str> = command.iter().map(String::as_str).collect();
        let follow = |rocks: &mut RocksDb| {
            rocks.execute(&command)?;
            // Between its look at the MANIFEST and at the logs, a flush may have removed one.
            rocks.execute(&["catch_up"])
        };
        let followed = match follow(rocks) {
            // Beside a primary that works, a secondary of RocksDB has ended by a signal, once in hundreds
            // of runs of one history. What the directory causes happens again.
            Err(error) if error.contains(ENDS) => {
                eprintln!("{error}");
                rocks.kill();
                follow(rocks)
            }
            followed => followed,
        };
        match followed {
            Err(error) if self.is_refusal_of_remade(&error) => return Ok(()),
            followed => followed.map_err(|error| format!("a secondary: {error}"))?,
        };
        for family in &self.families {
            let both = family.format == Format::BlockBased && family.order != Order::NoCase;
            let mut found = rocks.dump_at(&family.name, None, both, family.newest())?;
            for (key, _) in &mut found {
                *key = family.order.canonical(key);
            }
            agree(
                &family.name,
                "RocksDB, the secondary",
                &family.scan(),
                &found,
            )?;
        }
        rocks.execute(&["close"]).map(drop)
    }
}
