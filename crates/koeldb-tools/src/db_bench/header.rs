//! The text before the first benchmark: the machine, the sizes and the most important options.

use std::fmt::Write as _;

use super::flags::Flags;
use super::options::codec;

/// The machine's processor and the date of a run, for standard error and the JSON report.
#[derive(Clone, Debug)]
pub(crate) struct Environment {
    /// The date in the format of C's `ctime`, in UTC.
    pub(crate) date: String,
    pub(crate) cpu_count: usize,
    pub(crate) cpu: String,
    pub(crate) cpu_cache: String,
}

impl Environment {
    /// Parses the processor from the text of `/proc/cpuinfo`, perhaps empty, and formats the date.
    pub(crate) fn new(unix_seconds: u64, cpuinfo: &str) -> Self {
        let mut environment = Environment {
            date: ctime(unix_seconds),
            cpu_count: 0,
            cpu: String::new(),
            cpu_cache: String::new(),
        };
        for line in cpuinfo.lines() {
            match line
                .split_once(':')
                .map(|(key, value)| (key.trim(), value.trim()))
            {
                Some(("model name", value)) => {
                    environment.cpu_count += 1;
                    value.clone_into(&mut environment.cpu);
                }
                Some(("cache size", value)) => value.clone_into(&mut environment.cpu_cache),
                _ => {}
            }
        }
        environment
    }

    /// Formats the environment as lines for standard error.
    pub(crate) fn text(&self) -> String {
        format!(
            "KoelDB:     version {}\nDate:       {}\nCPU:        {} * {}\nCPUCache:   {}\n",
            env!("CARGO_PKG_VERSION"),
            self.date,
            self.cpu_count,
            self.cpu,
            self.cpu_cache
        )
    }
}

/// Formats the header of a run: key and value sizes, settings and warnings, for standard output.
///
/// `memtable` is the id of the memtable; `warnings` are lines before the dashes.
#[expect(clippy::cast_precision_loss, reason = "sizes in MB are approximations")]
pub(crate) fn text(flags: &Flags, memtable: &str, warnings: &[String]) -> String {
    let mut out = String::new();
    write_sizes(&mut out, flags);
    let average = f64::from(average_value_size(flags));
    let count = flags.num as f64;
    let key_size = f64::from(flags.key_size);
    let mib = 1_048_576.0;
    let raw = (key_size + average) * count / mib;
    let stored = (key_size + average * flags.compression_ratio) * count / mib;
    let lines = [
        format!("Entries:    {}", flags.num),
        format!("Prefix:    {} bytes", flags.prefix_size),
        format!("Keys per prefix:    {}", flags.keys_per_prefix),
        format!("RawSize:    {raw:.1} MB (estimated)"),
        format!("FileSize:   {stored:.1} MB (estimated)"),
        format!(
            "Write rate: {} bytes/second",
            flags.benchmark_write_rate_limit
        ),
        format!("Read rate: {} ops/second", flags.benchmark_read_rate_limit),
        format!("Compression: {}", codec_name(flags)),
        format!(
            "Compression sampling rate: {}",
            flags.sample_for_compression
        ),
        format!("Memtablerep: {memtable}"),
        format!("Perf Level: {}", flags.perf_level),
    ];
    let dashes = "-".repeat(48);
    for line in lines.iter().chain(warnings).chain([&dashes]) {
        out.push_str(line);
        out.push('\n');
    }
    out
}

/// Returns the name of the compression type as the header prints it.
fn codec_name(flags: &Flags) -> &'static str {
    codec(&flags.compression_type).map_or("Unknown", |codec| codec.name())
}

/// Returns warnings about a build or settings that make the measurement less meaningful.
pub(crate) fn warnings(flags: &Flags) -> Vec<String> {
    let mut warnings = Vec::new();
    if cfg!(debug_assertions) {
        warnings
            .push("WARNING: Optimization is disabled: benchmarks unnecessarily slow".to_owned());
        warnings.push("WARNING: Assertions are enabled; benchmarks unnecessarily slow".to_owned());
    }
    if codec(&flags.compression_type).is_some_and(|codec| !codec.is_available()) {
        let name = codec_name(flags);
        warnings.push(format!("WARNING: {name} compression is not available"));
    }
    warnings
}

/// Returns the mean value size in bytes of the configured distribution.
fn average_value_size(flags: &Flags) -> i32 {
    match flags.value_size_distribution_type.as_str() {
        "uniform" | "normal" => i32::midpoint(flags.value_size_min, flags.value_size_max),
        _ => flags.value_size,
    }
}

/// Writes the header's lines about key and value sizes.
#[expect(
    clippy::cast_possible_truncation,
    reason = "RocksDB prints whole bytes"
)]
fn write_sizes(out: &mut String, flags: &Flags) {
    let average = average_value_size(flags);
    let stored = (f64::from(average) * flags.compression_ratio + 0.5) as i64;
    let key_size = flags.key_size;
    // Writing to a string cannot fail.
    let _ = writeln!(
        out,
        "Keys:       {key_size} bytes each (+ 0 bytes user-defined timestamp)"
    );
    let _ = match flags.value_size_distribution_type.as_str() {
        distribution @ ("uniform" | "normal") => writeln!(
            out,
            "Values:     {average} avg bytes each ({stored} bytes after compression)\n\
             Values Distribution: {distribution} (min: {}, max: {})",
            flags.value_size_min, flags.value_size_max
        ),
        _ => writeln!(
            out,
            "Values:     {average} bytes each ({stored} bytes after compression)"
        ),
    };
}

/// A calendar date and time of day in UTC.
struct Civil {
    year: u64,
    month: u64,
    day: u64,
    /// Counted from Sunday.
    week_day: u64,
    seconds: u64,
}

impl Civil {
    /// Converts seconds since 1970 to a date of the Gregorian calendar.
    ///
    /// Years are counted from March (Howard Hinnant, "chrono-Compatible Low-Level Date
    /// Algorithms").
    fn new(unix_seconds: u64) -> Self {
        let days = unix_seconds / 86_400;
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let march_month = (5 * day_of_year + 2) / 153;
        let month = if march_month < 10 {
            march_month + 3
        } else {
            march_month - 9
        };
        Civil {
            year: year_of_era + era * 400 + u64::from(month <= 2),
            month,
            day: day_of_year - (153 * march_month + 2) / 5 + 1,
            week_day: (days + 4) % 7,
            seconds: unix_seconds % 86_400,
        }
    }
}

/// Formats a time as `2026/11/20-06:38:01`, in UTC.
pub(crate) fn date_time(unix_seconds: u64) -> String {
    let Civil {
        year,
        month,
        day,
        seconds,
        ..
    } = Civil::new(unix_seconds);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}/{month:02}/{day:02}-{hour:02}:{minute:02}:{second:02}")
}

/// Formats a time as `Fri Nov 20 06:38:01 2026`, in UTC.
fn ctime(unix_seconds: u64) -> String {
    const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let at = Civil::new(unix_seconds);
    let week_day = DAYS[koeldb_base::coding::to_usize(at.week_day)];
    let month = MONTHS[koeldb_base::coding::to_usize(at.month - 1)];
    let (hour, minute, second) = (at.seconds / 3600, at.seconds / 60 % 60, at.seconds % 60);
    format!(
        "{week_day} {month} {:>2} {hour:02}:{minute:02}:{second:02} {}",
        at.day, at.year
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_rocksdbs() {
        let flags = Flags {
            num: 20_000,
            compression_type: "none".to_owned(),
            ..Flags::default()
        };
        let expected = "\
Keys:       16 bytes each (+ 0 bytes user-defined timestamp)
Values:     100 bytes each (50 bytes after compression)
Entries:    20000
Prefix:    0 bytes
Keys per prefix:    0
RawSize:    2.2 MB (estimated)
FileSize:   1.3 MB (estimated)
Write rate: 0 bytes/second
Read rate: 0 ops/second
Compression: NoCompression
Compression sampling rate: 0
Memtablerep: SkipListFactory
Perf Level: 1
------------------------------------------------
";
        assert_eq!(text(&flags, "SkipListFactory", &[]), expected);
    }

    #[test]
    fn dates_follow_the_calendar() {
        assert_eq!(date_time(0), "1970/01/01-00:00:00");
        assert_eq!(date_time(951_827_696), "2000/02/29-12:34:56");
        assert_eq!(ctime(1_795_164_004), "Fri Nov 20 08:40:04 2026");
        assert_eq!(ctime(1_798_761_599), "Thu Dec 31 23:59:59 2026");
        assert_eq!(ctime(1_798_761_600), "Fri Jan  1 00:00:00 2027");
    }

    #[test]
    fn processors_are_counted() {
        let cpuinfo = "model name\t: Fast One\ncache size\t: 32 KB\n\nmodel name\t: Fast One\n";
        let environment = Environment::new(0, cpuinfo);
        assert!(
            environment
                .text()
                .ends_with("CPU:        2 * Fast One\nCPUCache:   32 KB\n")
        );
    }
}
