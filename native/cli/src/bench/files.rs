//! `zstn bench --files`: packs, unpacks and verifies files, and shows why a verb is not
//! faster: the processor time of each stage, the time in which threads wait, and the
//! speed that the serial stages allow on machines with more cores.

use std::borrow::Cow;
use std::path::Path;
use std::thread::available_parallelism;
use std::time::Instant;

use serde_json::{Value, json};
use zstn::internals::Staging;
use zstn::{
    Engine, Error, Job, PackOptions, Reader, Result, SafetensorsView, UnpackOptions, VerifyOptions,
};

use super::thread_times::{ThreadGroup, Threads, measure};
use super::{Options, print, size, synthetic, table};

/// The default number of threads for each core. Threads that wait are visible even on a
/// machine with few cores, because more threads could run than there are cores.
const THREADS_PER_CORE: usize = 4;

/// The numbers of cores for which a bound is printed.
const CORES: [u32; 6] = [2, 4, 8, 16, 32, 64];

/// A verb, and its fastest run.
struct Measured {
    verb: &'static str,
    computes_sha256: bool,
    run: Option<Run>,
}

struct Run {
    seconds: f64,
    /// `None` if the system does not report the times of threads.
    groups: Option<Vec<ThreadGroup>>,
}

pub fn run(options: &Options, file: Option<&Path>) -> Result<()> {
    let cores = available_parallelism().map_or(1, usize::from);
    let threads = (THREADS_PER_CORE * cores).min(Engine::max_threads());
    let engine = options.threads.engine_or(threads)?;
    let staging = match &options.work {
        Some(folder) => Staging::beside(&folder.join("zstn-bench"))?,
        None => Staging::temporary()?,
    };
    let [made, packed, claimed, restored] = [
        "original.safetensors",
        "packed.zstn",
        "claimed.zstn",
        "restored.safetensors",
    ]
    .map(|name| staging.path(name));
    let original = match file {
        Some(file) => file,
        None => {
            synthetic::write(&made, options.size)?;
            &made
        }
    };
    let job = Job::new().engine(&engine);
    let packing = PackOptions::default()
        .effort(options.effort.into())
        .integrity(!options.no_integrity)
        .statistics(!options.no_statistics);

    // The round that does not count also checks that the packed file is right.
    let report = zstn::pack(&job, original, &*packed, &packing)?;
    let against = VerifyOptions::default().original(original);
    if !zstn::verify(&job, &*packed, &against)?.identical {
        return Err(Error::Differs {
            detail: format!(
                "{} does not survive the round trip; this is a bug in zstn",
                original.display()
            ),
        });
    }
    let sha256 = match original.is_file() && !options.no_integrity {
        true => SafetensorsView::new(Reader::options().open(&*packed)?, 0)?
            .sha256()
            .copied(),
        false => None,
    };
    let computes_sha256 = !options.no_integrity;
    let measured = |verb, computes_sha256| Measured {
        verb,
        computes_sha256,
        run: None,
    };
    let mut verbs = vec![
        measured("pack", computes_sha256),
        measured("unpack", computes_sha256),
        measured("verify", computes_sha256),
    ];
    if sha256.is_some() {
        verbs.insert(1, measured("pack --sha256", false));
    }
    for _ in 0..options.runs {
        for verb in &mut verbs {
            match verb.verb {
                "pack" => {
                    remove(&packed)?;
                    verb.run(|| zstn::pack(&job, original, &*packed, &packing).map(drop))?;
                }
                "unpack" => {
                    remove(&restored)?;
                    let unpacking = UnpackOptions::default();
                    verb.run(|| zstn::unpack(&job, &*packed, &*restored, &unpacking).map(drop))?;
                    remove(&restored)?;
                }
                "verify" => {
                    let verifying = VerifyOptions::default();
                    verb.run(|| zstn::verify(&job, &*packed, &verifying).map(drop))?;
                }
                _ => {
                    let packing = sha256.map_or(packing.clone(), |it| packing.clone().sha256(it));
                    remove(&claimed)?;
                    verb.run(|| zstn::pack(&job, original, &*claimed, &packing).map(drop))?;
                    remove(&claimed)?;
                }
            }
        }
    }
    let results = Results {
        input: file.map_or("synthetic BF16".into(), |file| file.display().to_string()),
        folder: match &options.work {
            Some(folder) => folder.display().to_string(),
            None => std::env::temp_dir().display().to_string(),
        },
        threads: engine.threads(),
        cores,
        runs: options.runs,
        original_bytes: report.original_bytes(),
        packed_bytes: report.packed_bytes(),
        verbs: verbs.iter().filter_map(Measured::result).collect(),
    };
    match options.json {
        true => print(results.json()),
        false => results.print(),
    }
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

impl Measured {
    /// Runs the verb once, and keeps the result if it is the fastest.
    fn run(&mut self, work: impl FnOnce() -> Result<()>) -> Result<()> {
        let ((result, seconds), groups) = measure(|| {
            let started = Instant::now();
            let result = work();
            (result, started.elapsed().as_secs_f64())
        });
        result?;
        if self.run.as_ref().is_none_or(|best| seconds < best.seconds) {
            self.run = Some(Run { seconds, groups });
        }
        Ok(())
    }

    fn result(&self) -> Option<Verb<'_>> {
        let run = self.run.as_ref()?;
        let is_sha256 = |group: &ThreadGroup| group.threads == Threads::Named("zstn-sha256".into());
        let groups = run.groups.as_deref();
        Some(Verb {
            name: self.verb,
            seconds: run.seconds,
            groups,
            // Without a thread of its own, the calling thread computes it.
            calling_hashes: self.computes_sha256
                && !groups.is_some_and(|all| all.iter().any(is_sha256)),
        })
    }
}

/// The fastest run of a verb.
struct Verb<'a> {
    name: &'static str,
    seconds: f64,
    groups: Option<&'a [ThreadGroup]>,
    /// Whether the calling thread computes the SHA-256 of the file.
    calling_hashes: bool,
}

/// The processor time of all threads of a name, for each GB of the original.
struct Stage {
    threads: String,
    work: &'static str,
    cpu: f64,
    system: f64,
    is_serial: bool,
}

/// The shares of the time of all workers.
struct Workers {
    running: f64,
    queued: f64,
    idle: f64,
}

struct Results<'a> {
    input: String,
    folder: String,
    threads: usize,
    cores: usize,
    runs: u32,
    original_bytes: u64,
    packed_bytes: u64,
    verbs: Vec<Verb<'a>>,
}

impl Verb<'_> {
    fn stages(&self, gigabytes: f64) -> Option<Vec<Stage>> {
        let stage = |group: &ThreadGroup| {
            let (threads, work) = match &group.threads {
                Threads::Workers => ("workers".into(), "read or write, code, and check tensors"),
                Threads::Calling if self.calling_hashes => (
                    "calling thread".into(),
                    "everything else, with the file's SHA-256",
                ),
                Threads::Calling => ("calling thread".into(), "everything else"),
                Threads::Named(name) if name == "zstn-sha256" => {
                    (name.clone(), "SHA-256 of the file")
                }
                Threads::Named(name) => (name.clone(), ""),
                Threads::Ended => (
                    "ended threads".into(),
                    "unknown, because the threads have ended",
                ),
            };
            Stage {
                threads: match group.count {
                    1 => threads,
                    count => format!("{count} {threads}"),
                },
                work,
                cpu: group.cpu_seconds / gigabytes,
                system: group.system_seconds / gigabytes,
                is_serial: group.is_serial(),
            }
        };
        let is_shown = |group: &&ThreadGroup| {
            matches!(group.threads, Threads::Workers | Threads::Calling)
                || group.cpu_seconds > MIN_SECONDS
        };
        let groups = self.groups?.iter().filter(is_shown);
        Some(groups.map(stage).collect())
    }

    /// Returns the processor time of all threads, and of the longest serial stage.
    fn totals(&self) -> Option<(f64, f64)> {
        let groups = self.groups?;
        let total = groups.iter().map(|group| group.cpu_seconds).sum();
        let serial = groups.iter().filter(|group| group.is_serial());
        let serial = serial.map(|group| group.cpu_seconds / group.count as f64);
        Some((total, serial.fold(0.0, f64::max)))
    }

    fn workers(&self) -> Option<Workers> {
        let groups = self.groups?.iter();
        let group = groups
            .clone()
            .find(|group| group.threads == Threads::Workers)?;
        let available = self.seconds * group.count as f64;
        let running = (group.cpu_seconds / available).min(1.0);
        let queued = (group.queued_seconds / available).min(1.0 - running);
        Some(Workers {
            running,
            queued,
            idle: 1.0 - running - queued,
        })
    }
}

/// Threads that ran for less time do nothing for a verb.
const MIN_SECONDS: f64 = 1e-4;

impl ThreadGroup {
    /// Returns whether one file cannot use more threads of this name.
    fn is_serial(&self) -> bool {
        matches!(self.threads, Threads::Calling | Threads::Named(_))
    }
}

impl Results<'_> {
    fn gigabytes(&self) -> f64 {
        self.original_bytes as f64 / 1e9
    }

    /// Returns the bound of a verb in GB/s on this number of cores.
    fn bound(&self, verb: &Verb, cores: u32) -> Option<f64> {
        let (total, serial) = verb.totals()?;
        Some(self.gigabytes() / serial.max(total / f64::from(cores)).max(1e-9))
    }

    fn json(&self) -> Value {
        let verb = |verb: &Verb| {
            let workers = verb.workers();
            let totals = verb.totals();
            let stages = verb.stages(self.gigabytes());
            json!({
                "verb": verb.name,
                "seconds": verb.seconds,
                "workers_running": workers.as_ref().map(|workers| workers.running),
                "workers_queued": workers.as_ref().map(|workers| workers.queued),
                "workers_idle_or_blocked": workers.as_ref().map(|workers| workers.idle),
                "processor_seconds": totals.map(|(total, _)| total),
                "serial_seconds": totals.map(|(_, serial)| serial),
                "stages": stages.map(|stages| stages.iter().map(stage_json).collect::<Vec<_>>()),
                "bounds": CORES.iter().filter_map(|&cores| {
                    let bound = self.bound(verb, cores)?;
                    Some(json!({ "cores": cores, "gigabytes_per_second": bound }))
                }).collect::<Vec<_>>(),
            })
        };
        json!({
            "input": self.input,
            "folder": self.folder,
            "threads": self.threads,
            "cores": self.cores,
            "runs": self.runs,
            "original_bytes": self.original_bytes,
            "packed_bytes": self.packed_bytes,
            "verbs": self.verbs.iter().map(verb).collect::<Vec<_>>(),
        })
    }

    fn print(&self) -> Result<()> {
        table::print_facts(&[
            (
                "checkpoint",
                format!("{}, {}", self.input, size::bytes(self.original_bytes)),
            ),
            (
                "packed",
                size::ratio(self.original_bytes, self.packed_bytes),
            ),
            ("folder", self.folder.clone()),
            (
                "threads",
                format!("{} workers on {} cores", self.threads, self.cores),
            ),
            ("measured", format!("the fastest of {} runs", self.runs)),
        ])?;
        let percent = |share: f64| Cow::from(format!("{:.0} %", share * 100.0));
        let number = |value: f64| Cow::from(format!("{value:.3}"));
        let speed = |value: f64| Cow::from(format!("{value:.2}"));
        heading("Speed, and the time of the workers: running, queued for a core, idle or blocked")?;
        table::print(
            [
                "verb",
                ">seconds",
                ">GB/s",
                ">running",
                ">queued",
                ">idle or blocked",
            ],
            || {
                self.verbs.iter().map(|verb| {
                    let shares = match verb.workers() {
                        Some(workers) => {
                            [workers.running, workers.queued, workers.idle].map(percent)
                        }
                        None => ["–"; 3].map(Cow::from),
                    };
                    let [running, queued, idle] = shares;
                    let rate = speed(self.gigabytes() / verb.seconds.max(1e-9));
                    [
                        verb.name.into(),
                        number(verb.seconds),
                        rate,
                        running,
                        queued,
                        idle,
                    ]
                })
            },
        )?;
        if self.verbs.iter().any(|verb| verb.groups.is_none()) {
            return heading(
                "This system does not report the times of threads, so the other figures are missing.",
            );
        }
        heading(
            "Processor seconds for each GB of the original (the system's part is an estimate)",
        )?;
        table::print(
            ["verb", "threads", ">seconds", ">system", "serial", "work"],
            || {
                self.verbs.iter().flat_map(|verb| {
                    let stages = verb.stages(self.gigabytes()).unwrap_or_default();
                    let total = Stage {
                        threads: "all".into(),
                        work: "",
                        cpu: verb.totals().map_or(0.0, |(total, _)| total) / self.gigabytes(),
                        system: stages.iter().map(|stage| stage.system).sum(),
                        is_serial: false,
                    };
                    stages.into_iter().chain([total]).map(|stage| {
                        [
                            verb.name.into(),
                            stage.threads.into(),
                            number(stage.cpu),
                            number(stage.system),
                            if stage.is_serial { "serial" } else { "" }.into(),
                            stage.work.into(),
                        ]
                    })
                })
            },
        )?;
        heading(
            "Bound in GB/s by the number of cores: 1 / max(longest serial stage, all / cores). \
             An estimate, which ignores disks and memory that are slower",
        )?;
        table::print([">cores", ">2", ">4", ">8", ">16", ">32", ">64"], || {
            self.verbs.iter().map(|verb| {
                let [a, b, c, d, e, f] =
                    CORES.map(|cores| speed(self.bound(verb, cores).unwrap_or(0.0)));
                [verb.name.into(), a, b, c, d, e, f]
            })
        })
    }
}

fn stage_json(stage: &Stage) -> Value {
    json!({
        "stage": stage.threads,
        "work": stage.work,
        "seconds_per_gigabyte": stage.cpu,
        "system_seconds_per_gigabyte": stage.system,
        "is_serial": stage.is_serial,
    })
}

fn heading(text: &str) -> Result<()> {
    let mut out = super::super::terminal::Stdout::new();
    out.line("")?;
    out.line(text)?;
    out.finish()
}
