//! `zstn bench --files`: packs, unpacks and verifies files, and shows why a verb is not
//! faster: the processor time that cannot be divided among cores, the time in which the
//! workers wait, and the bytes that are read and written.

use std::borrow::Cow;
use std::path::Path;
use std::thread::available_parallelism;

use serde_json::{Value, json};
use zstn::internals::Staging;
use zstn::{
    Engine, Error, Job, PackOptions, Reader, Result, SafetensorsView, UnpackOptions, VerifyOptions,
};

use super::usage::{Role, Usage, measure};
use super::{Options, Stdout, print, size, synthetic, table};

/// The default number of threads for each core. Threads that wait are visible even on a
/// machine with few cores, because more threads could run than there are cores.
const THREADS_PER_CORE: usize = 4;

/// The numbers of cores for which a bound is printed.
const CORES: [u32; 6] = [2, 4, 8, 16, 32, 64];

struct Results {
    input: String,
    folder: String,
    threads: usize,
    cores: usize,
    runs: u32,
    original_bytes: u64,
    packed_bytes: u64,
    /// Each verb with its fastest run.
    verbs: Vec<(&'static str, Usage)>,
}

pub fn run(options: &Options, file: Option<&Path>) -> Result<()> {
    // If the system does not report the times of threads, nothing is written.
    measure(|| Ok(()))?;
    let cores = available_parallelism().map_or(1, usize::from);
    let threads = (THREADS_PER_CORE * cores).min(Engine::max_threads());
    let engine = options.threads.engine_or(threads)?;
    let folder = options.work.clone().unwrap_or_else(std::env::temp_dir);
    // The packed file and one more output exist at the same time.
    let needed_bytes = match file {
        Some(file) => len_bytes(file)?.saturating_mul(2),
        None => options.size.saturating_mul(3),
    };
    ensure_space(&folder, needed_bytes)?;
    let staging = Staging::beside(&folder.join("zstn-bench"))?;
    let [made, packed, output] =
        ["original.safetensors", "packed", "output"].map(|name| staging.path(name));
    let original = match file {
        Some(file) => file,
        None => {
            synthetic::write(&made, options.size)?;
            &made
        }
    };
    let input = file.map_or("synthetic BF16".into(), |file| file.display().to_string());
    let job = Job::new().engine(&engine);
    let packing = PackOptions::default()
        .effort(options.effort.into())
        .integrity(!options.no_integrity)
        .statistics(!options.no_statistics);
    let pack = |packing: &PackOptions, to: &Path| zstn::pack(&job, original, to, packing);
    let verify = |options: &VerifyOptions| zstn::verify(&job, &*packed, options);

    // The round that does not count also checks that the packed file is right.
    let report = pack(&packing, &packed)?;
    if !verify(&VerifyOptions::default().original(original))?.identical {
        return Err(Error::Differs {
            detail: format!("{input} does not survive the round trip; this is a bug in zstn"),
        });
    }
    let known = match original.is_file() && !options.no_integrity {
        true => SafetensorsView::new(Reader::options().engine(&engine).open(&*packed)?, 0)?
            .sha256()
            .map(|&digest| packing.clone().sha256(digest)),
        false => None,
    };
    let mut verbs = Vec::<(&str, Usage)>::new();
    let mut measured = |verb, output: &Path, work: &dyn Fn() -> Result<()>| -> Result<()> {
        remove(output)?;
        let usage = measure(work)?;
        match verbs.iter_mut().find(|(name, _)| *name == verb) {
            None => verbs.push((verb, usage)),
            Some((_, best)) if usage.seconds < best.seconds => *best = usage,
            Some(_) => {}
        }
        Ok(())
    };
    for _ in 0..options.runs {
        measured("pack", &packed, &|| pack(&packing, &packed).map(drop))?;
        if let Some(packing) = &known {
            let pack = || pack(packing, &output).map(drop);
            measured("pack --sha256", &output, &pack)?;
        }
        measured("unpack", &output, &|| {
            zstn::unpack(&job, &*packed, &*output, &UnpackOptions::default()).map(drop)
        })?;
        remove(&output)?;
        measured("verify", &output, &|| {
            verify(&VerifyOptions::default()).map(drop)
        })?;
        if !options.no_integrity {
            let fast = VerifyOptions::default().fast(true);
            measured("verify --fast", &output, &|| verify(&fast).map(drop))?;
        }
    }
    let results = Results {
        input,
        folder: folder.display().to_string(),
        threads: engine.threads(),
        cores,
        runs: options.runs,
        original_bytes: report.original_bytes(),
        packed_bytes: report.packed_bytes(),
        verbs,
    };
    match options.json {
        true => print(results.json()),
        false => results.print(),
    }
}

/// Returns the length of a file, or of all files in a folder.
fn len_bytes(path: &Path) -> Result<u64> {
    let failed = |error| Error::io(format!("read {}", path.display()), error);
    let metadata = path.metadata().map_err(failed)?;
    if !metadata.is_dir() {
        return Ok(metadata.len());
    }
    let mut len = 0;
    for entry in path.read_dir().map_err(failed)? {
        len += len_bytes(&entry.map_err(failed)?.path())?;
    }
    Ok(len)
}

/// Checks that the disk of `folder` has space for `needed_bytes`.
#[cfg(unix)]
fn ensure_space(folder: &Path, needed_bytes: u64) -> Result<()> {
    let disk = rustix::fs::statvfs(folder)
        .map_err(|error| Error::io(format!("use {}", folder.display()), error.into()))?;
    let free_bytes = disk.f_bavail.saturating_mul(disk.f_frsize);
    if needed_bytes <= free_bytes {
        return Ok(());
    }
    Err(Error::Usage(format!(
        "the files take up to {}, but {} has {} free; choose another folder with --work",
        size::bytes(needed_bytes),
        folder.display(),
        size::bytes(free_bytes)
    )))
}

#[cfg(not(unix))]
fn ensure_space(_: &Path, _: u64) -> Result<()> {
    Ok(())
}

/// Removes an output of an earlier run, so that no run replaces a file.
fn remove(path: &Path) -> Result<()> {
    let removed = match path.is_dir() {
        true => std::fs::remove_dir_all(path),
        false => std::fs::remove_file(path),
    };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io(format!("remove {}", path.display()), error))
        }
        _ => Ok(()),
    }
}

/// Returns the shares of the time of all workers, `threads` in number: they ran, waited
/// for a core, or waited for anything else, such as work, memory, a lock or a disk.
fn workers(usage: &Usage, threads: usize) -> [f64; 3] {
    let workers = usage.of(Role::Worker);
    let available_seconds = usage.seconds * threads as f64;
    let running = (workers.cpu_seconds / available_seconds).min(1.0);
    let queued = (workers.queued_seconds / available_seconds).min(1.0 - running);
    [running, queued, 1.0 - running - queued]
}

impl Results {
    fn json(&self) -> Value {
        let verb = |(verb, usage): &(&str, Usage)| {
            let [running, queued, waiting] = workers(usage, self.threads);
            json!({
                "verb": verb,
                "seconds": usage.seconds,
                "workers_running": running,
                "workers_queued": queued,
                "workers_waiting": waiting,
                "read_bytes": usage.counters.read_bytes,
                "written_bytes": usage.counters.written_bytes,
                "page_faults": usage.counters.page_faults,
                "processor_seconds": usage.cpu_seconds,
                "system_seconds": usage.counters.system_seconds,
                "worker_seconds": usage.of(Role::Worker).cpu_seconds,
                "file_thread_seconds": usage.of(Role::File).cpu_seconds,
                "sha256_seconds": usage.of(Role::Sha256).cpu_seconds,
                "serial_seconds": usage.serial_seconds(),
            })
        };
        json!({
            "input": self.input,
            "work_folder": self.folder,
            "threads": self.threads,
            "cores": self.cores,
            "runs": self.runs,
            "original_bytes": self.original_bytes,
            "packed_bytes": self.packed_bytes,
            "verbs": self.verbs.iter().map(verb).collect::<Vec<_>>(),
        })
    }

    fn print(&self) -> Result<()> {
        let (original, packed) = (self.original_bytes, self.packed_bytes);
        table::print_facts(&[
            (
                "checkpoint",
                format!("{}, {}", self.input, size::bytes(original)),
            ),
            (
                "packed",
                format!(
                    "{} ({})",
                    size::bytes(packed),
                    size::ratio(original, packed)
                ),
            ),
            ("folder", self.folder.clone()),
            (
                "threads",
                format!("{} ({} cores)", self.threads, self.cores),
            ),
            ("measured", format!("the fastest of {} runs", self.runs)),
        ])?;
        let gigabytes = original as f64 / 1e9;
        let number = |value: f64| Cow::from(format!("{value:.3}"));
        let percent = |share: f64| Cow::from(format!("{:.0} %", share * 100.0));
        lines(&[
            "",
            "Speed in GB of the original per second, and how the workers spent the time: running,",
            "queued for a core, or waiting for work, memory, a lock or a disk. Bytes that were read",
            "and written, in GB; page faults per MB of the original.",
        ])?;
        table::print(
            [
                "verb", ">seconds", ">GB/s", ">running", ">queued", ">waiting", ">read",
                ">written", ">faults",
            ],
            || {
                self.verbs.iter().map(|(verb, usage)| {
                    let [running, queued, waiting] = workers(usage, self.threads).map(percent);
                    let counters = &usage.counters;
                    [
                        Cow::from(*verb),
                        number(usage.seconds),
                        format!("{:.2}", gigabytes / usage.seconds.max(1e-9)).into(),
                        running,
                        queued,
                        waiting,
                        number(counters.read_bytes as f64 / 1e9),
                        number(counters.written_bytes as f64 / 1e9),
                        format!("{:.1}", counters.page_faults as f64 / gigabytes / 1e3).into(),
                    ]
                })
            },
        )?;
        lines(&[
            "",
            "Processor seconds per GB of the original: of all threads and the kernel's part of them,",
            "then of the workers, of the thread of each file, which writes or hashes in order, and",
            "of threads that only compute SHA-256. The part that one core has to do is serial.",
        ])?;
        table::print(
            [
                "verb", ">all", ">kernel", ">workers", ">file", ">SHA-256", ">serial",
            ],
            || {
                self.verbs.iter().map(|(verb, usage)| {
                    let of = |role| usage.of(role).cpu_seconds;
                    let seconds = [
                        usage.cpu_seconds,
                        usage.counters.system_seconds,
                        of(Role::Worker),
                        of(Role::File),
                        of(Role::Sha256),
                        usage.serial_seconds(),
                    ];
                    let [a, b, c, d, e, f] = seconds.map(|seconds| number(seconds / gigabytes));
                    [Cow::from(*verb), a, b, c, d, e, f]
                })
            },
        )?;
        lines(&[
            "",
            "Upper bound of the speed in GB/s with as many cores and threads as in the first line:",
            "1 / max(serial, all / cores). Disks and memory may be slower.",
        ])?;
        table::print(["cores", ">2", ">4", ">8", ">16", ">32", ">64"], || {
            self.verbs.iter().map(|(verb, usage)| {
                let [a, b, c, d, e, f] = CORES.map(|cores| {
                    let seconds = usage.cpu_seconds / f64::from(cores);
                    let bound = gigabytes / seconds.max(usage.serial_seconds()).max(1e-9);
                    Cow::from(format!("{bound:.2}"))
                });
                [Cow::from(*verb), a, b, c, d, e, f]
            })
        })
    }
}

fn lines(lines: &[&str]) -> Result<()> {
    let mut out = Stdout::new();
    lines.iter().try_for_each(|line| out.line(line))?;
    out.finish()
}
