//! Starts and kills workers.

use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use indicatif::ProgressBar;
use koeldb_fs::{Clock, SystemClock};
use koeldb_testkit::{Random, Summary};

use crate::Flags;
use crate::worker::GAVE_UP;

/// A worker that takes longer to end by itself counts as hanging.
const DEADLINE: Duration = Duration::from_secs(120);

/// Waits up to `time` for a worker process to exit; returns its exit code, `None` if it runs on.
fn wait(child: &mut Child, time: Duration) -> std::io::Result<Option<i32>> {
    let until = SystemClock.now() + time;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.code().unwrap_or(-1)));
        }
        if SystemClock.now() >= until {
            return Ok(None);
        }
        SystemClock.sleep(Duration::from_millis(2));
    }
}

/// Runs the program that cuts the power or restores the disk, if one is configured.
fn switch_power(flags: &Flags, what: &[&str]) -> Result<(), String> {
    let Some(program) = &flags.power_cut else {
        return Ok(());
    };
    match Command::new(program).args(what).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{} {what:?}: {status}", program.display())),
        Err(error) => Err(format!("{}: {error}", program.display())),
    }
}

/// Builds the command line of a worker process, which writes until killed or only verifies.
fn worker(program: &Path, flags: &Flags, life: u64, only_verifies: bool) -> Command {
    let mut command = Command::new(program);
    command
        .arg(format!("--db={}", flags.db.display()))
        .arg(format!("--expected={}", flags.expected().display()))
        .arg(format!("--threads={}", flags.threads))
        .arg(format!("--keys={}", flags.keys))
        .arg(format!("--families={}", flags.families))
        .arg(format!("--seed={}", flags.seed))
        .arg(format!("--worker={life}"))
        .arg(format!("--fault_one_in={}", flags.fault_one_in))
        .arg(format!("--copy_one_in={}", flags.copy_one_in))
        .arg(format!("--seconds={}", u64::from(!only_verifies) * 3600))
        .stdin(Stdio::null());
    if flags.sync {
        command.arg("--sync");
    }
    if flags.panic {
        command.arg("--panic");
    }
    command
}

/// Starts and kills worker processes until the time is up and enough of them were killed.
pub(crate) fn run(flags: &Flags) -> Result<ExitCode, String> {
    let begun = SystemClock.now();
    let until = begun + Duration::from_secs(flags.seconds);
    let mut random = Random::new(flags.seed);
    let (mut lives, mut kills, mut gave_up) = (0_u64, 0_u64, 0_u64);
    let mut failures = 0;
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let spinner = ProgressBar::new_spinner();
    spinner.enable_steady_tick(Duration::from_millis(200));
    loop {
        spinner.set_message(format!("{lives} lives, {kills} kills"));
        // The last worker only verifies the database and ends by itself.
        let is_last = SystemClock.now() >= until && kills >= flags.kills;
        lives += 1;
        let mut command = worker(&program, flags, lives, is_last);
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let life = match is_last {
            true => DEADLINE,
            false => Duration::from_millis(random.below(flags.life_ms.max(1))),
        };
        match wait(&mut child, life).map_err(|error| error.to_string())? {
            Some(0) if is_last => break,
            Some(GAVE_UP) => gave_up += 1,
            Some(code) => {
                eprintln!("db_stress: life {lives} ended with {code}");
                failures += 1;
                break;
            }
            None => {
                if is_last {
                    eprintln!("db_stress: life {lives} does not end");
                    failures += 1;
                }
                if !is_last {
                    switch_power(flags, &["cut", &child.id().to_string()])?;
                }
                child.kill().map_err(|error| error.to_string())?;
                let status = child.wait().map_err(|error| error.to_string())?;
                kills += 1;
                // It may have failed just before.
                let failed = status.code().filter(|code| ![0, GAVE_UP].contains(code));
                if let Some(code) = failed {
                    eprintln!("db_stress: life {lives} ended with {code}");
                    failures += 1;
                }
                if is_last || failed.is_some() {
                    break;
                }
                switch_power(flags, &["restore"])?;
            }
        }
    }
    spinner.finish_and_clear();
    let summary = Summary {
        suite: "db_stress",
        seed: flags.seed,
        figures: vec![("lives", lives), ("kills", kills), ("gave_up", gave_up)],
        seconds: (SystemClock.now() - begun).as_secs_f64(),
        failures,
    };
    println!("{summary}");
    Ok(match failures {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}
