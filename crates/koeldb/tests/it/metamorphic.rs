//! Random operations with many sets of options, which must not change the results.

use std::sync::Arc;

use koeldb::fs::MemoryFileSystem;
use koeldb::{ConfigOptions, Env, Options};
use koeldb_testkit::random::mix;
use koeldb_testkit::variety::{Drawer, Suite};
use koeldb_testkit::{Floors, Random};

use crate::model::{self, Settings};

/// The number of column families besides the default one, each with its own options.
const FAMILIES: usize = 2;

/// Draws the options of one open; `reversed` families have keys that descend.
fn settings(drawer: &Drawer, random: &mut Random, base: &Options, reversed: u64) -> Settings {
    let drawn = drawer.draw(random);
    println!("{drawn}");
    let how = ConfigOptions::new();
    let mut options = base.clone();
    options
        .create_missing_column_families(true)
        .apply_str(&drawn.database, &how)
        .unwrap_or_else(|error| panic!("{}: {error}", drawn.database));
    let mut families = drawn.families.iter().enumerate().map(|(number, text)| {
        let mut family = base.cf_options().clone();
        let comparator = match reversed >> number & 1 {
            1 if text.contains("comparator=") => format!("comparator={}.u64ts;", model::REVERSE),
            1 => format!("comparator={};", model::REVERSE),
            _ => String::new(),
        };
        family
            .apply_str(&format!("{text}{comparator}"), &how)
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        (format!("family{number}"), family)
    });
    if let Some((_, default)) = families.next() {
        *options.cf_options_mut() = default;
    }
    let families = families.collect();
    (options, families)
}

#[test]
fn options_change_no_answer() {
    let (scripts, steps) = Floors::chosen().of((1, 250), (5, 1000), (500, 1000));
    let only: Option<u64> = std::env::var("KOELDB_N")
        .ok()
        .and_then(|text| text.parse().ok());
    for script in 0..scripts {
        for set in only.map_or(0..60, |only| only..only + 1) {
            println!("script {script}, set {set}");
            let mut random = Random::new(mix(script << 32 | set));
            let drawer = Drawer::of_families(Suite::Metamorphic, &mut random, 1 + FAMILIES);
            let dates = Random::new(mix(script << 32 | set | 1 << 63));
            let drawer = drawer.with_timestamps(dates);
            // A family keeps its comparator. Half of the databases have only ascending keys.
            let reversed = match random.chance(1, 2) {
                true => random.below(1 << (1 + FAMILIES)),
                false => 0,
            };
            let mut base = model::base_options();
            let memory = Arc::new(MemoryFileSystem::new());
            base.set_env(&Env::new(memory, Arc::new(model::DateOfSteps)));
            model::run_under(1000 + script, steps, || {
                settings(&drawer, &mut random, &base, reversed)
            });
        }
    }
}
