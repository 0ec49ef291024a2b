//! The operations of a turn, in either engine and in the model.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use koeldb::fs::{Clock, SystemClock};

use super::draw::{show, show_bound};
use super::model::{Change, Family, Format, Merge, encode};
use super::ours::agree;
use super::theirs::hex;
use super::{Engine, History, NAMES, options};

impl History<'_> {
    fn write(&mut self, engine: &mut Engine<'_>) -> Result<(), String> {
        let changes = self.batch();
        let mut unlogged = self.random.chance(1, 25);
        if !engine.is_ours() {
            // RocksDB rejects that if logs are recycled.
            let latest = &self.latest;
            unlogged &= !latest.as_written && !latest.database.contains("recycle_log_file_num");
        }
        let sync = !unlogged && self.random.chance(1, 10);
        self.note(&format!(
            "write sync={sync} unlogged={unlogged} {}",
            show(&changes)
        ));
        self.may_lose |= unlogged;
        let batch = encode(&changes);
        match engine {
            Engine::Ours(ours) => ours.write(&batch, sync, unlogged),
            Engine::Theirs(rocks) => {
                let flags = match (sync, unlogged) {
                    (true, _) => "s",
                    (_, true) => "w",
                    _ => "-",
                };
                rocks.execute(&["write", flags, &hex(&batch)]).map(drop)
            }
        }
    }

    fn flush(&mut self, engine: &mut Engine<'_>) -> Result<(), String> {
        let mut names: Vec<String> = Vec::new();
        for index in 0..self.families.len() {
            if self.random.chance(1, 2) || self.families.len() == 1 {
                names.push(self.families[index].name.clone());
            }
        }
        let wait = self.random.chance(3, 4);
        self.note(&format!("flush wait={wait} {names:?}"));
        let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
        match engine {
            Engine::Ours(ours) => ours.flush(&names, wait),
            Engine::Theirs(_) if names.is_empty() => Ok(()),
            Engine::Theirs(rocks) => {
                let mut command = vec!["flush", if wait { "1" } else { "0" }];
                command.append(&mut names);
                let done = rocks.execute(&command).map(drop);
                self.tolerate(done, &["Writes have been stopped"])
            }
        }
    }

    fn compact(&mut self, engine: &mut Engine<'_>) -> Result<(), String> {
        let family = self.random.index(self.families.len());
        let Family {
            name,
            order,
            format,
            fixed,
            ..
        } = self.families[family].clone();
        let (mut from, mut to) = (None, None);
        if self.random.chance(2, 3) {
            let (mut first, mut last) = (self.key(order, format), self.key(order, format));
            if order.compare(&first, &last).is_gt() {
                std::mem::swap(&mut first, &mut last);
            }
            from = self.random.chance(4, 5).then_some(first);
            to = self.random.chance(4, 5).then_some(last);
        }
        let force = self.random.chance(1, 3);
        let level = (fixed.contains("num_levels=7") && self.random.chance(1, 6))
            .then(|| 1 + u32::try_from(self.random.below(6)).unwrap());
        self.note(&format!(
            "compact {name} {} {} force={force} level={level:?}",
            show_bound(&from),
            show_bound(&to)
        ));
        let done = match engine {
            Engine::Ours(ours) => ours.compact(&name, from.as_deref(), to.as_deref(), force, level),
            Engine::Theirs(rocks) => {
                let bound = |key: Option<Vec<u8>>| key.map_or("-".to_owned(), |key| hex(&key));
                let flags = if force { "f" } else { "-" };
                let level = level.map_or("-1".to_owned(), |level| level.to_string());
                rocks
                    .execute(&["compact", &name, &bound(from), &bound(to), flags, &level])
                    .map(drop)
            }
        };
        // The level cannot take the result.
        self.tolerate(done, &["level", "Level", "Incomplete"])
    }

    fn compact_files(&mut self, engine: &mut Engine<'_>) -> Result<(), String> {
        let family = self.random.index(self.families.len());
        let Family { name, fixed, .. } = self.families[family].clone();
        let level = match fixed.contains("num_levels=1;") {
            true => 0,
            false => 1 + u32::try_from(self.random.below(3)).unwrap(),
        };
        let pick = self.random.draw();
        self.note(&format!("compact_files {name} {level} {pick}"));
        let done = match engine {
            Engine::Ours(ours) => ours.compact_files(&name, level, pick),
            Engine::Theirs(rocks) => rocks
                .execute(&[
                    "compact_files",
                    &name,
                    &level.to_string(),
                    &(pick % 65_536).to_string(),
                ])
                .map(drop),
        };
        // Files of a background compaction, a level above an input, or another error without
        // damage.
        match done {
            Err(error) if !error.contains("orruption") => {
                self.note(&format!("  {error}"));
                Ok(())
            }
            other => other,
        }
    }

    fn tolerate(&mut self, done: Result<(), String>, words: &[&str]) -> Result<(), String> {
        match done {
            Err(error) if words.iter().any(|word| error.contains(word)) => {
                self.note(&format!("  {error}"));
                Ok(())
            }
            other => other,
        }
    }

    fn snapshot(&mut self, engine: &mut Engine<'_>) -> Result<(), String> {
        if self.families.iter().any(|f| f.format == Format::Cuckoo) {
            return Ok(());
        }
        self.note("snapshot");
        self.snapshots.push(self.families.clone());
        match engine {
            Engine::Ours(ours) => ours.snapshots.push(ours.db.snapshot()),
            Engine::Theirs(rocks) => drop(rocks.execute(&["snapshot"])?),
        }
        Ok(())
    }

    fn release(&mut self, engine: &mut Engine<'_>) -> Result<(), String> {
        if self.snapshots.is_empty() {
            return Ok(());
        }
        let index = self.random.index(self.snapshots.len());
        self.note(&format!("release {index}"));
        self.snapshots.remove(index);
        match engine {
            Engine::Ours(ours) => drop(ours.snapshots.remove(index)),
            Engine::Theirs(rocks) => drop(rocks.execute(&["release", &index.to_string()])?),
        }
        Ok(())
    }

    /// Reads a column family in its current state or at a snapshot.
    fn read(&mut self, engine: &mut Engine<'_>) -> Result<(), String> {
        let mut seen = self.families.clone();
        let mut snapshot = None;
        if !self.snapshots.is_empty() && self.random.chance(2, 3) {
            let index = self.random.index(self.snapshots.len());
            snapshot = Some(index);
            // Column families that existed then and exist now.
            seen = self.snapshots[index].clone();
            seen.retain_mut(|then| {
                let now = self.families.iter().find(|now| now.id == then.id);
                now.map(|now| then.raise(now.low)).is_some()
            });
        }
        if seen.is_empty() {
            return Ok(());
        }
        let family = &seen[self.random.index(seen.len())];
        self.note(&format!("read {} at {snapshot:?}", family.name));
        let found = engine.dump(family, snapshot)?;
        let who = if engine.is_ours() {
            "KoelDB"
        } else {
            "RocksDB"
        };
        agree(
            &family.name,
            &format!("{who}, in its turn: the scan"),
            &family.scan(),
            &found,
        )
    }

    fn create_or_drop(&mut self, engine: &mut Engine<'_>) -> Result<(), String> {
        let name = NAMES[self.random.index(NAMES.len())];
        let existing = self.families.iter().position(|family| family.name == name);
        if let Some(index) = existing {
            self.note(&format!("drop {name}"));
            self.families.remove(index);
            self.latest.families.remove(name);
            return match engine {
                Engine::Ours(ours) => ours.drop_family(name),
                Engine::Theirs(rocks) => rocks.execute(&["drop", name]).map(drop),
            };
        }
        let mut family = self.draw_family(name, 0);
        let before = self.orders.insert(name.to_owned(), family.order);
        self.is_remade |= before.is_some_and(|order| order != family.order);
        let text = self.family_text(&family);
        self.note(&format!("create {name} {:?} {text}", family.order));
        family.id = match engine {
            Engine::Ours(ours) => ours.create(name, family.order, &text)?,
            Engine::Theirs(rocks) => {
                let answer = rocks.execute(&["create", name, family.order.name(), &text])?;
                answer[0].parse().unwrap()
            }
        };
        self.families.push(family);
        self.latest.families.insert(name.to_owned(), text);
        Ok(())
    }

    fn set_options(&mut self, engine: &mut Engine<'_>) -> Result<(), String> {
        let family = self.random.index(self.families.len());
        let name = self.families[family].name.clone();
        let text = options::mutable(&mut self.random);
        self.note(&format!("set {name} {text}"));
        match engine {
            Engine::Ours(ours) => ours.set_options(&name, &text),
            Engine::Theirs(rocks) => rocks.execute(&["set", &name, &text]).map(drop),
        }
    }

    fn ingest(&mut self, engine: &mut Engine<'_>) -> Result<(), String> {
        let Engine::Theirs(rocks) = engine else {
            return Ok(());
        };
        let family = self.random.index(self.families.len());
        let Family {
            name,
            order,
            merge,
            format,
            ..
        } = self.families[family].clone();
        if format != Format::BlockBased || order.is_dated() {
            return Ok(());
        }
        let mut changes = BTreeMap::new();
        for _ in 0..=self.random.below(30) {
            let key = self.key(order, format);
            let change = match self.random.below(6) {
                0 => Change::Delete(key.clone()),
                1 if merge == Merge::Append => Change::Merge(key.clone(), b"ingested".to_vec()),
                _ => Change::Put(key.clone(), self.value(merge, format)),
            };
            // Of equal keys, the last one.
            changes.insert(order.canonical(&key), change);
        }
        let mut changes: Vec<(Vec<u8>, Change)> = changes.into_iter().collect();
        changes.sort_by(|left, right| order.compare(&left.0, &right.0));
        let file = self.base.join("ingested.sst").display().to_string();
        let flags = if self.random.chance(1, 2) { "m" } else { "-" };
        let mut fields = vec!["ingest".to_owned(), name, flags.to_owned(), file];
        let mut shown = Vec::new();
        for (_, change) in changes {
            self.families[family].apply(&change);
            match &change {
                Change::Put(key, value) => fields.extend(["p".to_owned(), hex(key), hex(value)]),
                Change::Merge(key, value) => fields.extend(["m".to_owned(), hex(key), hex(value)]),
                Change::Delete(key) => fields.extend(["d".to_owned(), hex(key), String::new()]),
                _ => unreachable!("no other change is drawn"),
            }
            shown.push((self.families[family].id, change));
        }
        self.note(&format!("ingest {}", show(&shown)));
        let fields: Vec<&str> = fields.iter().map(String::as_str).collect();
        // RocksDB gives up an ingestion that another job's memtable switch meets, and says so.
        match rocks.execute(&fields) {
            Err(error) if error.contains("Inconsistent memtable state") => rocks.execute(&fields),
            ingested => ingested,
        }
        .map(drop)
    }

    /// Raises the low mark of a family with timestamps, now and then.
    ///
    /// RocksDB's Java library writes marks of sixteen bytes. Its compactions merge an operand after the
    /// mark with a value before it, which reads between the two then miss.
    fn raise(&mut self, engine: &Engine<'_>) -> Result<(), String> {
        let Engine::Ours(ours) = engine else {
            return Ok(());
        };
        let mut low = None;
        for family in &mut self.families {
            let is_raised = family.order.is_dated() && family.merge == Merge::None;
            if is_raised && self.dates.chance(1, 10) {
                let kept = family.time.saturating_sub(family.low);
                family.raise(family.low + self.dates.below(kept + 1));
                ours.raise(&family.name, family.low)?;
                low = Some(format!("raise {} to {}", family.name, family.low));
            }
        }
        low.iter().for_each(|text| self.note(text));
        Ok(())
    }

    pub(super) fn step(&mut self, engine: &mut Engine<'_>) -> Result<(), String> {
        self.figures.operations.fetch_add(1, Ordering::Relaxed);
        self.raise(engine)?;
        match self.random.below(100) {
            0..52 => self.write(engine),
            52..62 => self.flush(engine),
            62..69 => self.compact(engine),
            69..72 => self.compact_files(engine),
            72..79 => self.snapshot(engine),
            79..84 => self.release(engine),
            84..87 => self.create_or_drop(engine),
            87..89 => self.set_options(engine),
            89..92 => self.ingest(engine),
            92..94 => {
                let sync = self.random.chance(1, 2);
                self.note(&format!("flush_wal {sync}"));
                match engine {
                    Engine::Ours(ours) => ours.flush_wal(sync),
                    Engine::Theirs(rocks) => rocks
                        .execute(&["flush_wal", if sync { "1" } else { "0" }])
                        .map(drop),
                }
            }
            94 => self.copy(engine),
            95 => self.look_by_our_secondary(engine),
            96 => {
                let pause = Duration::from_millis(self.random.below(20));
                self.note(&format!("sleep {pause:?}"));
                SystemClock.sleep(pause);
                Ok(())
            }
            _ => self.read(engine),
        }
    }
}
