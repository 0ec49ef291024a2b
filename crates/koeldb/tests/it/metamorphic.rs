//! One list of random operations under many sets of options: options change speed, not answers.

use koeldb::{ConfigOptions, Options};
use koeldb_testkit::random::mix;
use koeldb_testkit::{Floors, Random, variety};

use crate::model;

fn options(seed: u64) -> (Options, String) {
    let mut random = Random::new(mix(seed));
    let text = variety::draw_style(&mut random) + &variety::draw(&mut random);
    let mut options = model::base_options();
    options
        .apply_str(&text, &ConfigOptions::new())
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    (options, text)
}

#[test]
fn options_change_no_answer() {
    let (scripts, steps) = Floors::chosen().of((1, 250), (5, 1000), (500, 1000));
    for script in 0..scripts {
        for set in 0..60 {
            let (options, text) = options(script << 32 | set);
            println!("script {script}, set {set}: {text}");
            model::run(1000 + script, &options, steps);
        }
    }
}
