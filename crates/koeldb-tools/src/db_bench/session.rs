//! A run of the program: opens the database, runs the benchmarks in turn and reports.

use std::fmt;
use std::fs::File;
use std::io::{IsTerminal as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use koeldb_fs::clock::{Clock, SystemClock};

use super::catalog::{self, Benchmark, Request, TellsBatch, Work};
use super::compaction_workers::CompactionWorkers;
use super::database::{self, Components, Databases};
use super::flags::{CommandLine, Flags};
use super::header::{self, Environment};
use super::interval::Sampler;
use super::options;
use super::page::{Page, Run, Sample};
use super::plan::{ExistingKeys, Failure, Outcome, Plan};
use super::report::Repeats;
use super::tally::{Watch, whole_micros};
use super::worker::{Shared, ThreadedWork, run_threads};
use crate::json::Json;

/// A run of the program over all its benchmarks: databases, flags and collected results.
pub(crate) struct Session<'a> {
    line: &'a CommandLine,
    seed: u64,
    components: Components,
    workers: CompactionWorkers,
    /// `None` only while the databases are being reopened.
    databases: Option<Databases>,
    existing_keys: ExistingKeys,
    threads_started: u64,
    environment: Environment,
    results: Json,
    /// The runs for the report page; empty without one.
    runs: Vec<Run>,
}

/// The interval of the samples of the report page.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(100);

/// Formats the progress bar's operations and rate, and without `duration` the remaining time.
///
/// Nothing is written if there is neither a duration nor a total.
fn write_amount(state: &ProgressState, duration: u64, out: &mut dyn fmt::Write) -> fmt::Result {
    let (done, rate) = (state.pos(), state.per_sec());
    if duration > 0 {
        return write!(out, " of {duration}s, {done} ops, {rate:.0} ops/s");
    }
    match state.len() {
        None | Some(0) => Ok(()),
        Some(all) => {
            let percent = done.saturating_mul(100) / all;
            let left = state.eta().as_secs();
            write!(
                out,
                ", {percent} % of {all} ops, {rate:.0} ops/s, {left}s left"
            )
        }
    }
}

impl<'a> Session<'a> {
    /// Opens the databases, after destroying existing ones unless kept, and prints the header.
    ///
    /// An existing database is destroyed first unless it is to be kept.
    pub(crate) fn start(line: &'a CommandLine, seed: u64) -> Outcome<Self> {
        let flags = &line.flags;
        // Invalid parameters are reported before anything is destroyed.
        Plan::new(flags, seed, None)?;
        let components = Components::new(flags)?;
        if !flags.use_existing_db {
            database::destroy(flags)?;
        }
        let databases = database::open(flags, &components)?;
        let workers = CompactionWorkers::start(flags)?;
        let existing_keys = if flags.use_existing_keys {
            Some(Arc::new(all_keys(&databases)?))
        } else {
            None
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "a file of the machine's, not of a database"
        )]
        let cpuinfo = std::fs::read("/proc/cpuinfo").unwrap_or_default();
        let seconds = SystemClock.unix_micros() / 1_000_000;
        let environment = Environment::new(seconds, &String::from_utf8_lossy(&cpuinfo));
        eprint!("{}", environment.text());
        let memtable = options::memtable(flags).1;
        print!(
            "{}",
            header::text(flags, &memtable, &header::warnings(flags))
        );
        flush_stdout();
        Ok(Session {
            line,
            seed,
            components,
            workers,
            databases: Some(databases),
            existing_keys,
            threads_started: 0,
            environment,
            results: Json::array(),
            runs: Vec::new(),
        })
    }

    /// Runs all benchmarks of `--benchmarks`.
    pub(crate) fn run(&mut self) -> Outcome {
        let line = self.line;
        let words = line.flags.benchmarks.split(',');
        for word in words.filter(|word| !word.is_empty()) {
            let request = catalog::parse_request(word).map_err(Failure::new)?;
            let Some(benchmark) = catalog::find(request.name) else {
                let mut message = format!("unknown benchmark '{}'", request.name);
                if let Some(why) = catalog::why_absent(request.name) {
                    message.push_str(&format!(" (RocksDB has it; here {why})"));
                }
                return Err(Failure::new(message));
            };
            self.run_benchmark(benchmark, &request)?;
            flush_stdout();
        }
        if let Some(statistics) = &self.components.statistics {
            println!("STATISTICS:\n{statistics}");
        }
        if self.line.flags.print_malloc_stats
            && let Some(figures) = koeldb_fs::allocator_figures()
        {
            print!("ALLOCATOR:\n{figures}");
        }
        Ok(())
    }

    /// Closes the databases and writes the reports that are requested.
    pub(crate) fn finish(mut self) -> Outcome {
        let engine = self.engine_texts();
        let closed = self.databases.take().map_or(Ok(()), Databases::close);
        self.workers.finish();
        closed?;
        self.write_json()?;
        self.write_page(engine)
    }

    /// Returns the level and compaction statistics of the first database, with their titles.
    fn engine_texts(&self) -> Vec<(&'static str, String)> {
        let Some(databases) = &self.databases else {
            return Vec::new();
        };
        let family = databases.all()[0].default_family();
        let properties = [
            ("Levels", "rocksdb.levelstats"),
            ("Compactions and amplification", "rocksdb.cfstats"),
        ];
        let texts = properties.map(|(title, name)| {
            let text = family.property_value(name).ok().flatten();
            (title, text.unwrap_or_default())
        });
        texts.into()
    }

    /// Writes the HTML report to `--report`, if given.
    fn write_page(&self, engine: Vec<(&'static str, String)>) -> Outcome {
        let flags = &self.line.flags;
        if flags.report.is_empty() {
            return Ok(());
        }
        let given = self.line.given.iter();
        let words = given.map(|name| format!(" --{name}={}", flags.show(name)));
        let page = Page {
            environment: &self.environment,
            command: format!("db_bench{}", words.collect::<String>()),
            runs: &self.runs,
            engine,
        };
        #[expect(clippy::disallowed_methods, reason = "a report, no file of a database")]
        let written = std::fs::write(&flags.report, page.html());
        written.map_err(|error| Failure::of(&format!("cannot write {}", flags.report), &error))
    }

    /// Returns the open databases; fails if they are closed.
    fn databases(&self) -> Outcome<&Databases> {
        let databases = self.databases.as_ref();
        databases.ok_or_else(|| Failure::new("the database is not open"))
    }

    /// Runs one benchmark: checks its prerequisites, derives its parameters, and executes it.
    fn run_benchmark(&mut self, benchmark: &Benchmark, request: &Request<'_>) -> Outcome {
        let line = self.line;
        let flags = &line.flags;
        benchmark.needs.check(benchmark.name, flags)?;
        let mut plan = Plan::new(flags, self.seed, self.existing_keys.clone())?;
        (benchmark.change)(&mut plan);
        let mut threads = usize::try_from(flags.threads).unwrap_or(1).max(1);
        if let Some(remark) = benchmark.one_thread
            && threads > 1
        {
            if !remark.is_empty() {
                eprintln!("{remark}");
            }
            threads = 1;
        }
        let tells = match benchmark.tells_batch {
            TellsBatch::Never => false,
            TellsBatch::Always => true,
            TellsBatch::WithStride => plan.stride > 0,
        };
        if tells {
            eprintln!("entries_per_batch = {}", plan.batch);
        }
        if benchmark.fresh && !self.refresh(benchmark.name)? {
            return Ok(());
        }
        match benchmark.work {
            Work::State(work) => work(flags, self.databases()?),
            Work::Threads(threaded) => self.run_repeatedly(request, threaded, threads, &plan),
        }
    }

    /// Recreates the databases empty; with `--use_existing_db` only reopens and returns `false`.
    fn refresh(&mut self, name: &str) -> Outcome<bool> {
        let flags = &self.line.flags;
        if let Some(databases) = self.databases.take() {
            databases.close()?;
        }
        if flags.use_existing_db {
            println!("{name:<12} : skipped (--use_existing_db is true)");
        } else {
            database::destroy(flags)?;
        }
        self.databases = Some(database::open(flags, &self.components)?);
        Ok(!flags.use_existing_db)
    }

    /// Runs the warm-ups and measured runs of a benchmark, and prints mean and median rates.
    fn run_repeatedly(
        &mut self,
        request: &Request<'_>,
        threaded: ThreadedWork,
        threads: usize,
        plan: &Plan,
    ) -> Outcome {
        println!("DB path: [{}]", self.line.flags.db);
        if request.warm_ups > 0 {
            println!("Warming up benchmark by running {} times", request.warm_ups);
        }
        for _ in 0..request.warm_ups {
            self.run_once(request.name, threaded, threads, plan)?;
        }
        if request.repeats > 1 {
            println!("Running benchmark for {} times", request.repeats);
        }
        let mut repeats = Repeats::default();
        for run in 1..=request.repeats {
            let measured = self.run_once(request.name, threaded, threads, plan)?;
            let report = &measured.report;
            self.results.push(report.json(run));
            repeats.add(report);
            let interval = self.line.flags.confidence_interval_only;
            print!("{}", repeats.line(&report.name, interval));
            if !self.line.flags.report.is_empty() {
                self.runs.push(measured);
            }
        }
        print!("{}", repeats.last_lines(request.name));
        Ok(())
    }

    /// Runs a benchmark once on its threads, and prints the result.
    fn run_once(
        &mut self,
        name: &str,
        threaded: ThreadedWork,
        threads: usize,
        plan: &Plan,
    ) -> Outcome<Run> {
        flush_stdout();
        let flags = &self.line.flags;
        let ops = Arc::new(AtomicU64::new(0));
        let interval_file = interval_file(flags, &ops)?;
        let sampler = (!flags.report.is_empty()).then(|| {
            let keep = |samples: &mut Vec<Sample>, elapsed, ops| {
                samples.push((elapsed, ops));
                Ok(())
            };
            Sampler::start(ops.clone(), SAMPLE_INTERVAL, Vec::new(), keep)
        });
        let progress = self.progress_bar(name, plan.duration);
        let watch = Watch {
            histogram: flags.histogram,
            fine: !flags.json.is_empty() || !flags.report.is_empty(),
            slow_micros: flags.slow_usecs,
            interval_ops: if flags.progress_reports {
                self.stats_interval()
            } else {
                0
            },
            interval_time: Duration::from_secs(
                u64::try_from(flags.stats_interval_seconds).unwrap_or(0),
            ),
            published: (interval_file.is_some() || sampler.is_some()).then_some(ops),
            progress: progress.clone(),
        };
        let mut started = self.threads_started;
        let mut shared = Shared::new(flags, plan, self.databases()?, watch);
        let (report, outcome) = run_threads(name, threaded, threads, &mut shared, &mut started);
        self.threads_started = started;
        if let Some(progress) = progress {
            progress.finish_and_clear();
        }
        if let Some(file) = interval_file {
            file.stop()?;
        }
        let samples = sampler.map_or(Ok(Vec::new()), Sampler::stop)?;
        match outcome {
            Err(failure) if !failure.after_result => Err(failure),
            outcome => {
                print!("{}", report.text());
                flush_stdout();
                outcome.map_err(|failure| {
                    Failure::new(format!(
                        "Fatal error during \"{name}\": {}",
                        failure.message
                    ))
                })?;
                Ok(Run { report, samples })
            }
        }
    }

    /// Returns the number of operations between interval lines; 0 for none.
    fn stats_interval(&self) -> u64 {
        let flags = &self.line.flags;
        if flags.stats_interval_seconds > 0 {
            1000
        } else {
            u64::try_from(flags.stats_interval).unwrap_or(0)
        }
    }

    /// Creates the progress bar; `None` if it is off, with interval lines, or without a terminal.
    fn progress_bar(&self, name: &str, duration: u64) -> Option<ProgressBar> {
        let flags = &self.line.flags;
        let wanted = flags.progress_reports && self.stats_interval() == 0;
        if !wanted || !std::io::stderr().is_terminal() {
            return None;
        }
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        // The template is well-formed.
        if let Ok(style) = ProgressStyle::with_template("{msg}: {elapsed}{amount}") {
            let amount = move |state: &ProgressState, out: &mut dyn fmt::Write| {
                // An amount that cannot be shown does no harm.
                let _ = write_amount(state, duration, out);
            };
            bar.set_style(style.with_key("amount", amount));
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        bar.set_message(name.to_owned());
        Some(bar)
    }

    /// Writes the results of all benchmarks to `--json`, if given.
    fn write_json(&mut self) -> Outcome {
        let flags = &self.line.flags;
        if flags.json.is_empty() {
            return Ok(());
        }
        let mut given = Json::object();
        for &name in &self.line.given {
            given.set(name, &flags.show(name));
        }
        let mut json = Json::object();
        json.set("program", "db_bench")
            .set("engine", "koeldb")
            .set("version", env!("CARGO_PKG_VERSION"))
            .set("date", &self.environment.date)
            .set("cpu", &self.environment.cpu)
            .set(
                "cpus",
                u64::try_from(self.environment.cpu_count).unwrap_or(0),
            )
            .set("seed", self.seed)
            .set("flags", given)
            .set(
                "results",
                std::mem::replace(&mut self.results, Json::array()),
            );
        #[expect(clippy::disallowed_methods, reason = "a report, no file of a database")]
        let written = std::fs::write(&flags.json, json.finish() + "\n");
        written.map_err(|error| Failure::of(&format!("cannot write {}", flags.json), &error))
    }
}

fn flush_stdout() {
    // The next print notices a closed pipe.
    let _ = std::io::stdout().flush();
}

/// Returns all keys of the first database in key order.
fn all_keys(databases: &Databases) -> Outcome<Vec<Box<[u8]>>> {
    let mut options = koeldb::ReadOptions::new();
    options.set_total_order_seek(true);
    let mut cursor = databases.all()[0].default_family().cursor_opt(&options);
    let mut keys = Vec::new();
    let mut step = cursor.seek_to_first();
    while step.map_err(|error| Failure::of("Iterator error", &error))? {
        keys.extend(cursor.key().map(Box::from));
        step = cursor.next();
    }
    Ok(keys)
}

/// Starts the thread that writes a report file line per interval; `None` if none is requested.
fn interval_file(flags: &Flags, ops: &Arc<AtomicU64>) -> Outcome<Option<Sampler<File>>> {
    let interval = match u64::try_from(flags.report_interval_seconds) {
        Ok(seconds) if seconds > 0 => Duration::from_secs(seconds),
        _ => return Ok(None),
    };
    let path = &flags.report_file;
    #[expect(clippy::disallowed_methods, reason = "a report, no file of a database")]
    let file = File::create(path);
    let mut file = file.map_err(|error| Failure::new(format!("Can't open {path}: {error}")))?;
    writeln!(file, "secs_elapsed,interval_qps")
        .map_err(|error| Failure::of("Can't write to report file", &error))?;
    let sampler = Sampler::start(ops.clone(), interval, file, |file, elapsed, ops| {
        writeln!(
            file,
            "{},{ops}",
            (whole_micros(elapsed) + 500_000) / 1_000_000
        )
    });
    Ok(Some(sampler))
}
