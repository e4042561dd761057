//! The suite `scaling`, which checks that `pack`, `unpack` and `verify` can use many cores:
//! that they read and write every byte as often as designed, and that the work which one
//! core has to do is small. `zstn bench --files` measures both.
//!
//! No limit is a time. Bytes are the same on every machine, and the other limits compare
//! processor times of one run, whatever else the machine does meanwhile.

use serde::Deserialize;

use crate::prelude::*;

const LINE: &str = "bench --files --size 64M --runs 3 --threads 8 --json --work";
/// Processor times of a few milliseconds vary, so a failure has to be repeated.
const ATTEMPTS: usize = 3;

/// The report of `zstn bench --files --json` (docs/schema/bench.json).
#[derive(Deserialize)]
struct Report {
    original_bytes: f64,
    packed_bytes: f64,
    verbs: Vec<Verb>,
}

#[derive(Deserialize)]
struct Verb {
    verb: String,
    read_bytes: f64,
    written_bytes: f64,
    page_faults: f64,
    processor_seconds: f64,
    worker_seconds: f64,
    file_thread_seconds: f64,
    sha256_seconds: f64,
}

/// The limits for a verb.
struct Limits {
    verb: &'static str,
    /// How often the verb reads and writes the original and the packed file.
    original: f64,
    packed: f64,
    /// The processor time of the thread of the file, divided by the one of `in_order_of`.
    in_order: f64,
    in_order_of: Base,
    /// Page faults per MB of the original. A buffer that is filled once causes 244 with
    /// pages of 4 kB, and fewer with larger ones.
    page_faults: f64,
}

#[derive(Clone, Copy, Debug)]
enum Base {
    /// The work of the workers.
    Workers,
    /// The SHA-256 of the file, which `pack` computes on a thread of its own.
    Sha256,
}

/// `pack` writes in order, `unpack` and `verify` hash in order. They read the packed file
/// to check its frames, then again to decode them.
#[rustfmt::skip]
const LIMITS: [Limits; 5] = [
    Limits { verb: "pack", original: 1.0, packed: 1.0, in_order: 1.2, in_order_of: Base::Sha256, page_faults: 400.0 },
    Limits { verb: "pack --sha256", original: 1.0, packed: 1.0, in_order: 0.4, in_order_of: Base::Workers, page_faults: 400.0 },
    Limits { verb: "unpack", original: 1.0, packed: 2.0, in_order: 1.5, in_order_of: Base::Sha256, page_faults: 150.0 },
    Limits { verb: "verify", original: 0.0, packed: 2.0, in_order: 1.5, in_order_of: Base::Sha256, page_faults: 150.0 },
    Limits { verb: "verify --fast", original: 0.0, packed: 2.0, in_order: 0.1, in_order_of: Base::Workers, page_faults: 150.0 },
];

pub fn suite() -> Result<()> {
    if !cfg!(target_os = "linux") {
        return Ok(());
    }
    cargo::programs()?;
    step("work of one core, and bytes read and written", |step| {
        let folder = target("scaling");
        fs::create_dir_all(&folder)?;
        let mut failures = Vec::new();
        for _ in 0..ATTEMPTS {
            let mut bench = Command::new(program("debug/zstn"));
            step.run(bench.words(LINE).arg(&folder))?;
            let output = step.output()?;
            let report = output.lines().last().unwrap_or_default();
            failures = judge(&serde_json::from_str(report)?);
            if failures.is_empty() {
                return Ok(());
            }
            step.say(&failures.join("; "));
        }
        bail!(
            "{}. The limits are in xtask/src/scaling.rs; `zstn bench --files` prints the figures",
            failures.join("; ")
        )
    })
}

/// Returns a sentence for every limit that is exceeded.
fn judge(report: &Report) -> Vec<String> {
    let mut failures = Vec::new();
    let find = |name| report.verbs.iter().find(|verb| verb.verb == name);
    let sha256_seconds = find("pack").map_or(0.0, |pack| pack.sha256_seconds);
    for limits in &LIMITS {
        let Some(verb) = find(limits.verb) else {
            failures.push(format!("{} was not measured", limits.verb));
            continue;
        };
        let mut compare = |what: &str, value: f64, most: f64| {
            if value.is_nan() || value > most {
                let name = limits.verb;
                failures.push(format!("{name}: {what} {value:.3}, at most {most:.3}"));
            }
        };
        // Headers, indices and samples are read in addition.
        let bytes = limits.original * report.original_bytes + limits.packed * report.packed_bytes;
        let moved = verb.read_bytes + verb.written_bytes;
        compare("bytes read and written / designed", moved / bytes, 1.03);
        let per_mb = verb.page_faults / (report.original_bytes / 1e6);
        compare("page faults per MB", per_mb, limits.page_faults);
        let (of, base) = match limits.in_order_of {
            Base::Workers => ("workers", verb.worker_seconds),
            Base::Sha256 => ("SHA-256", sha256_seconds),
        };
        let share = verb.file_thread_seconds / base;
        compare(&format!("in order / {of}"), share, limits.in_order);
        let known = verb.worker_seconds + verb.file_thread_seconds + verb.sha256_seconds;
        let unknown = 1.0 - known / verb.processor_seconds;
        compare("share of other threads", unknown, 0.1);
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns figures that are as designed.
    fn report() -> Report {
        let verb = |limits: &Limits| Verb {
            verb: limits.verb.into(),
            read_bytes: limits.original * 150.0 + limits.packed * 100.0,
            written_bytes: 0.0,
            page_faults: 0.0,
            processor_seconds: 2.0,
            worker_seconds: 1.4,
            file_thread_seconds: 0.1,
            sha256_seconds: 0.5,
        };
        Report {
            original_bytes: 150.0,
            packed_bytes: 100.0,
            verbs: LIMITS.iter().map(verb).collect(),
        }
    }

    #[test]
    fn a_temporary_copy_and_serial_work_are_found() {
        assert_eq!(judge(&report()), Vec::<String>::new());
        let mut copying = report();
        copying.verbs[2].written_bytes += 150.0;
        let failures = judge(&copying);
        assert_eq!(failures.len(), 1);
        assert!(failures[0].starts_with("unpack: bytes read and written / designed 1.429"));
        let mut serial = report();
        serial.verbs[4].file_thread_seconds = 0.5;
        assert!(judge(&serial)[0].starts_with("verify --fast: in order / workers"));
        serial.verbs.truncate(4);
        assert_eq!(judge(&serial), ["verify --fast was not measured"]);
    }
}
