//! The processor time of each thread of this process while some work runs, from Linux's
//! `/proc/self/task`. Other systems do not report it.

use std::collections::BTreeMap;
use std::fs;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// The times of all threads of one name.
pub struct ThreadGroup {
    pub threads: Threads,
    /// The largest number of threads of this name that existed at the same time.
    pub count: usize,
    pub cpu_seconds: f64,
    /// The part of `cpu_seconds` spent in the kernel. This is an estimate, because the
    /// kernel counts it in ticks.
    pub system_seconds: f64,
    /// The time in which the threads could have run, but waited for a core.
    pub queued_seconds: f64,
}

/// What a group of threads is.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Threads {
    /// The threads of the engine.
    Workers,
    /// The thread that called the work.
    Calling,
    /// Threads with this name.
    Named(String),
    /// Threads that ended between two samples, so that their last milliseconds cannot
    /// be assigned to a name.
    Ended,
}

const TASKS: &str = "/proc/self/task";
/// The time between two samples. A thread that ends takes the time since its last
/// sample with it.
const INTERVAL: Duration = Duration::from_millis(20);

/// Runs `work` on this thread, and returns the times of the threads; `None` if the
/// kernel does not report them.
pub fn measure<T>(work: impl FnOnce() -> T) -> (T, Option<Vec<ThreadGroup>>) {
    thread::scope(|scope| {
        let (begun, begin) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        // The samples before and after the work are taken while the calling thread
        // waits: the kernel updates the times of a thread when it stops running.
        let sampler = scope.spawn(move || {
            let mut samples = Samples::begin();
            let _ = begun.send(());
            loop {
                let wait = ended.recv_timeout(INTERVAL);
                if let Some(samples) = &mut samples {
                    samples.add();
                }
                if !matches!(wait, Err(RecvTimeoutError::Timeout)) {
                    return samples.map(Samples::finish);
                }
            }
        });
        let _ = begin.recv();
        let result = work();
        let _ = end.send(());
        (result, sampler.join().ok().flatten())
    })
}

/// The times of a thread since it started.
#[derive(Clone, Copy, Default)]
struct Times {
    cpu: f64,
    queued: f64,
    user_ticks: f64,
    system_ticks: f64,
}

/// A thread that existed in at least one sample.
struct Track {
    name: String,
    first: Times,
    last: Times,
    /// The number of the last sample in which it existed.
    seen: usize,
}

struct Samples {
    sampler: String,
    process_seconds: f64,
    threads: BTreeMap<String, Track>,
    /// The number of samples so far.
    count: usize,
    most: BTreeMap<Threads, usize>,
}

impl Samples {
    fn begin() -> Option<Self> {
        let link = fs::read_link("/proc/thread-self").ok()?;
        let mut samples = Self {
            sampler: link.file_name()?.to_str()?.to_owned(),
            process_seconds: others_seconds(),
            threads: BTreeMap::new(),
            count: 0,
            most: BTreeMap::new(),
        };
        samples.add();
        for track in samples.threads.values_mut() {
            track.first = track.last;
        }
        (!samples.threads.is_empty()).then_some(samples)
    }

    /// Adds a sample of all threads except the sampler.
    fn add(&mut self) {
        self.count += 1;
        let Ok(tasks) = fs::read_dir(TASKS) else {
            return;
        };
        let mut counts = BTreeMap::<Threads, usize>::new();
        for task in tasks.flatten() {
            let id = task.file_name().to_string_lossy().into_owned();
            if id == self.sampler {
                continue;
            }
            // A thread can end at any time.
            let Some(times) = times(&id) else { continue };
            let track = self.threads.entry(id);
            let track = track.or_insert_with_key(|id| Track {
                name: name(id),
                first: Times::default(),
                last: times,
                seen: 0,
            });
            track.last = times;
            track.seen = self.count;
            *counts.entry(threads(&track.name)).or_default() += 1;
        }
        for (threads, count) in counts {
            let most = self.most.entry(threads).or_default();
            *most = count.max(*most);
        }
    }

    fn finish(self) -> Vec<ThreadGroup> {
        let mut groups = BTreeMap::<Threads, ThreadGroup>::new();
        let mut ended = Vec::new();
        let mut missing = others_seconds() - self.process_seconds;
        for track in self.threads.values() {
            let kind = threads(&track.name);
            if track.seen < self.count && !ended.contains(&kind) {
                ended.push(kind.clone());
            }
            let (first, last) = (track.first, track.last);
            let cpu = last.cpu - first.cpu;
            let system = last.system_ticks - first.system_ticks;
            let ticks = system + last.user_ticks - first.user_ticks;
            let count = self.most.get(&kind).copied().unwrap_or(1);
            let group = groups.entry(kind.clone()).or_insert(ThreadGroup {
                threads: kind,
                count,
                cpu_seconds: 0.0,
                system_seconds: 0.0,
                queued_seconds: 0.0,
            });
            group.cpu_seconds += cpu;
            group.system_seconds += cpu * system / ticks.max(1.0);
            group.queued_seconds += last.queued - first.queued;
            missing -= cpu;
        }
        // Both clocks agree to a fraction of a millisecond.
        let missing = missing.max(0.0);
        match ended.first().and_then(|kind| groups.get_mut(kind)) {
            // The time that is missing was spent by the threads that ended.
            Some(group) if ended.len() == 1 => group.cpu_seconds += missing,
            _ if missing > 0.001 => {
                groups.insert(
                    Threads::Ended,
                    ThreadGroup {
                        threads: Threads::Ended,
                        count: ended.len().max(1),
                        cpu_seconds: missing,
                        system_seconds: 0.0,
                        queued_seconds: 0.0,
                    },
                );
            }
            _ => {}
        }
        groups.into_values().collect()
    }
}

/// Returns the processor time of all threads of this process, except this one's.
#[cfg(target_os = "linux")]
fn others_seconds() -> f64 {
    use rustix::time::{ClockId, clock_gettime};
    let seconds = |id| {
        let time = clock_gettime(id);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    seconds(ClockId::ProcessCPUTime) - seconds(ClockId::ThreadCPUTime)
}

#[cfg(not(target_os = "linux"))]
fn others_seconds() -> f64 {
    0.0
}

fn times(id: &str) -> Option<Times> {
    let schedule = fs::read_to_string(format!("{TASKS}/{id}/schedstat")).ok()?;
    let mut nanoseconds = schedule.split_whitespace().map(str::parse::<f64>);
    let (cpu, queued) = (nanoseconds.next()?.ok()?, nanoseconds.next()?.ok()?);
    let stat = fs::read_to_string(format!("{TASKS}/{id}/stat")).ok()?;
    // The name, in parentheses, may contain spaces.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut ticks = fields.split_whitespace().skip(11).map(str::parse::<f64>);
    Some(Times {
        cpu: cpu / 1e9,
        queued: queued / 1e9,
        user_ticks: ticks.next()?.ok()?,
        system_ticks: ticks.next()?.ok()?,
    })
}

/// Returns the name of a thread; of the first thread of the process, the empty
/// string.
fn name(id: &str) -> String {
    if id == std::process::id().to_string() {
        return String::new();
    }
    let name = fs::read_to_string(format!("{TASKS}/{id}/comm"));
    name.unwrap_or_default().trim_end().to_owned()
}

fn threads(name: &str) -> Threads {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match name.strip_prefix("zstn-") {
        _ if name.is_empty() => Threads::Calling,
        Some(number) if is_number(number) => Threads::Workers,
        _ => Threads::Named(name.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// Keeps a core busy.
    fn spin(duration: Duration) {
        let started = Instant::now();
        while started.elapsed() < duration {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn threads_that_end_are_counted_and_those_that_sleep_are_not() {
        let ((), groups) = measure(|| {
            thread::scope(|scope| {
                let busy = thread::Builder::new().name("zstn-busy".into());
                let idle = thread::Builder::new().name("zstn-7".into());
                let busy = busy.spawn_scoped(scope, || spin(Duration::from_millis(150)));
                let sleep = || thread::sleep(Duration::from_millis(250));
                idle.spawn_scoped(scope, sleep).expect("a thread");
                busy.expect("a thread");
            });
        });
        // A container may hide these files.
        let Some(groups) = groups else { return };
        let seconds = |threads: &Threads| {
            let group = groups.iter().find(|group| group.threads == *threads);
            group.map_or(0.0, |group| group.cpu_seconds)
        };
        let busy = seconds(&Threads::Named("zstn-busy".into()));
        assert!((0.02..0.2).contains(&busy), "{busy}");
        assert!(seconds(&Threads::Workers) < 0.02);
    }
}
