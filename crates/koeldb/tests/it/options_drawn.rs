//! The suites draw every option of the registry that has an effect.

use std::collections::BTreeSet;

use koeldb::{ColumnFamilyOptions, ConfigOptions, Effect, Options};
use koeldb_testkit::variety::{self, Drawer, Suite};
use koeldb_testkit::{Random, random::mix};

type Name = (&'static str, &'static str);

fn with_effect() -> BTreeSet<Name> {
    Options::registry()
        .iter()
        .filter(|info| info.effect == Effect::Honoured)
        .map(|info| (info.section, info.name))
        .collect()
}

#[test]
fn every_option_with_an_effect_is_drawn_or_left_out_with_a_reason() {
    let known: BTreeSet<Name> = variety::ROWS
        .iter()
        .map(|row| (row.section, row.name))
        .chain(variety::COMPOSED.iter().copied())
        .chain(variety::LEFT_OUT.iter().map(|out| (out.section, out.name)))
        .collect();
    let obeyed = with_effect();
    let missing: Vec<_> = obeyed.difference(&known).collect();
    assert!(missing.is_empty(), "no suite draws {missing:?}");
    let without: Vec<_> = known.difference(&obeyed).collect();
    assert!(without.is_empty(), "drawn without effect: {without:?}");
    for out in variety::LEFT_OUT {
        assert!(!out.why.is_empty(), "{out:?}");
    }
}

#[test]
fn each_suite_draws_what_it_does_not_leave_out_and_an_open_accepts_it() {
    for suite in Suite::ALL {
        let mut drawn_rows = BTreeSet::new();
        for seed in 0..400 {
            let mut random = Random::new(mix(seed));
            let mut drawer = Drawer::of_families(suite, &mut random, 2);
            if seed % 2 == 1 {
                drawer = drawer.with_timestamps(random.clone());
            }
            let drawn = drawer.draw(&mut random);
            drawn_rows.extend(drawn.rows.iter().copied());
            for family in &drawn.families {
                let mut options = Options::new();
                for text in [&drawn.database, family] {
                    options
                        .apply_str(text, &ConfigOptions::new())
                        .unwrap_or_else(|error| panic!("{text}: {error}"));
                }
                options
                    .validate()
                    .unwrap_or_else(|error| panic!("{suite:?}, seed {seed}: {drawn}\n{error}"));
            }
        }
        let never: Vec<_> = with_effect()
            .into_iter()
            .filter(|(section, name)| variety::is_drawn(suite, section, name))
            .filter(|row| !drawn_rows.contains(row))
            .collect();
        assert!(never.is_empty(), "{suite:?} never draws {never:?}");
    }
}

#[test]
fn families_differ_and_a_seed_draws_the_same_again() {
    let draw = |seed| {
        let mut random = Random::new(seed);
        let drawer = Drawer::of_families(Suite::Metamorphic, &mut random, 3);
        drawer.draw(&mut random)
    };
    assert_eq!(draw(7).to_string(), draw(7).to_string());
    let drawn = draw(7);
    assert_ne!(drawn.families[0], drawn.families[1]);
    let mut family = ColumnFamilyOptions::default();
    family
        .apply_str(&drawn.families[2], &ConfigOptions::new())
        .unwrap();
}
