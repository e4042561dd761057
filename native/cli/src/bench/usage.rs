//! The resources that this process uses while some work runs, from Linux's `/proc`:
//! processor time by the role of the threads, bytes read and written, and page faults.

use std::collections::BTreeMap;
use std::fs;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use zstn::{Error, Result};

/// The task of a thread, which its name shows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A thread of the engine.
    Worker,
    /// The thread that begins the work on a file, one for each file. Everything that has
    /// to be done in order is done by it: writing records, or hashing decoded tensors. It
    /// also processes a tensor that is the only one of its file.
    File,
    /// A thread that computes the SHA-256 of a file and does nothing else.
    Sha256,
    Other,
}

const ROLES: [Role; 4] = [Role::Worker, Role::File, Role::Sha256, Role::Other];

/// The times of all threads of one role.
#[derive(Clone, Copy, Default)]
pub struct RoleTimes {
    pub cpu_seconds: f64,
    /// The time in which the threads could have run, but waited for a core.
    pub queued_seconds: f64,
    /// The largest number of threads of this role that existed at the same time.
    at_once: usize,
    /// The processor time of the busiest thread.
    busiest_seconds: f64,
}

/// The resources that some work used.
pub struct Usage {
    pub seconds: f64,
    /// The processor time of all threads.
    pub cpu_seconds: f64,
    pub counters: Counters,
    roles: [RoleTimes; ROLES.len()],
}

impl Usage {
    pub fn of(&self, role: Role) -> RoleTimes {
        self.roles[role as usize]
    }

    /// Returns a lower bound of the time that the work takes with any number of cores:
    /// the processor time of the busiest thread among those that do work in order, or
    /// the average of the threads of one role that run at the same time, if that is
    /// longer.
    pub fn serial_seconds(&self) -> f64 {
        let bounds = [Role::File, Role::Sha256].map(|role| {
            let times = self.of(role);
            let average = times.cpu_seconds / times.at_once.max(1) as f64;
            average.max(times.busiest_seconds)
        });
        bounds[0].max(bounds[1])
    }
}

/// Counters of the whole process.
#[derive(Clone, Copy)]
pub struct Counters {
    /// Bytes that system calls returned from files, whether or not a disk was read.
    pub read_bytes: u64,
    /// Bytes that system calls wrote.
    pub written_bytes: u64,
    /// Pages of memory that the kernel had to provide, most of them cleared.
    pub page_faults: u64,
    /// The processor time in the kernel. This is an estimate, because the kernel counts
    /// it in ticks.
    pub system_seconds: f64,
}

impl Counters {
    fn read() -> Option<Self> {
        let io = fs::read_to_string("/proc/self/io").ok()?;
        let bytes = |name: &str| -> Option<u64> {
            let mut lines = io.lines();
            let value = lines.find_map(|line| line.strip_prefix(name))?;
            value.trim().parse().ok()
        };
        let stat = fs::read_to_string("/proc/self/stat").ok()?;
        // The name of the program, in parentheses, may contain spaces.
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        Some(Self {
            read_bytes: bytes("rchar:")?,
            written_bytes: bytes("wchar:")?,
            page_faults: fields.get(7)?.parse().ok()?,
            // The kernel reports ticks of 10 ms, whatever its own clock is.
            system_seconds: fields.get(12)?.parse::<f64>().ok()? / 100.0,
        })
    }

    fn since(self, start: Self) -> Self {
        Self {
            read_bytes: self.read_bytes - start.read_bytes,
            written_bytes: self.written_bytes - start.written_bytes,
            page_faults: self.page_faults - start.page_faults,
            system_seconds: self.system_seconds - start.system_seconds,
        }
    }
}

const TASKS: &str = "/proc/self/task";
/// The time between two samples. A thread that ends takes the time since its last
/// sample with it.
const INTERVAL: Duration = Duration::from_millis(20);

/// Runs `work` on this thread, and returns what it used.
///
/// # Errors
/// The error of `work`; [`Error::Usage`] if the system does not report the times of
/// threads.
pub fn measure(work: impl FnOnce() -> Result<()>) -> Result<Usage> {
    let unknown = || {
        Error::Usage(format!(
            "this system does not report the times of threads ({TASKS}), which only Linux does; \
             without --files, bench measures packing and unpacking in memory"
        ))
    };
    let calling = own_id().ok_or_else(unknown)?;
    thread::scope(|scope| {
        let (begun, begin) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        // The first and the last sample are taken while the calling thread waits: the
        // kernel updates the times of a thread when it stops running.
        let sampler = scope.spawn(move || {
            let mut samples = Samples::begin(calling)?;
            let _ = begun.send(());
            loop {
                let wait = ended.recv_timeout(INTERVAL);
                samples.add();
                if !matches!(wait, Err(RecvTimeoutError::Timeout)) {
                    return samples.finish();
                }
            }
        });
        // If the sampler has given up, it sends nothing.
        let is_sampled = begin.recv().is_ok();
        let started = Instant::now();
        let worked = if is_sampled { work() } else { Ok(()) };
        let seconds = started.elapsed().as_secs_f64();
        let _ = end.send(());
        let usage = sampler.join().ok().flatten();
        worked?;
        let usage = usage.ok_or_else(unknown)?;
        Ok(Usage { seconds, ..usage })
    })
}

/// The times of a thread since it started.
#[derive(Clone, Copy, Default)]
struct Times {
    cpu_seconds: f64,
    queued_seconds: f64,
}

/// A thread that existed in at least one sample.
struct Track {
    role: Role,
    first: Times,
    last: Times,
    /// The number of the last sample in which it existed.
    seen: usize,
}

struct Samples {
    calling: String,
    sampler: String,
    counters: Counters,
    cpu_seconds: f64,
    threads: BTreeMap<String, Track>,
    /// The number of samples so far.
    count: usize,
    at_once: [usize; ROLES.len()],
}

impl Samples {
    fn begin(calling: String) -> Option<Self> {
        let mut samples = Self {
            calling,
            sampler: own_id()?,
            counters: Counters::read()?,
            cpu_seconds: cpu_seconds_of_others(),
            threads: BTreeMap::new(),
            count: 0,
            at_once: [0; ROLES.len()],
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
        let mut at_once = [0; ROLES.len()];
        for task in fs::read_dir(TASKS).into_iter().flatten().flatten() {
            let id = task.file_name().to_string_lossy().into_owned();
            // A thread can end at any time.
            let Some(times) = times(&id).filter(|_| id != self.sampler) else {
                continue;
            };
            let calling = &self.calling;
            let track = self.threads.entry(id).or_insert_with_key(|id| Track {
                role: if id == calling { Role::File } else { role(id) },
                first: Times::default(),
                last: times,
                seen: 0,
            });
            track.last = times;
            track.seen = self.count;
            at_once[track.role as usize] += 1;
        }
        for (most, count) in self.at_once.iter_mut().zip(at_once) {
            *most = count.max(*most);
        }
    }

    fn finish(self) -> Option<Usage> {
        let cpu_seconds = cpu_seconds_of_others() - self.cpu_seconds;
        let mut roles = [RoleTimes::default(); ROLES.len()];
        for track in self.threads.values() {
            let role = &mut roles[track.role as usize];
            let cpu_seconds = track.last.cpu_seconds - track.first.cpu_seconds;
            role.cpu_seconds += cpu_seconds;
            role.queued_seconds += track.last.queued_seconds - track.first.queued_seconds;
            role.busiest_seconds = role.busiest_seconds.max(cpu_seconds);
        }
        // Threads that ended used the processor after their last sample. If they all had
        // one role, that time is known.
        let seen: f64 = roles.iter().map(|role| role.cpu_seconds).sum();
        let ended = ROLES.into_iter().filter(|&role| {
            let mut tracks = self.threads.values();
            tracks.any(|track| track.role == role && track.seen < self.count)
        });
        let ended: Vec<Role> = ended.collect();
        let role = match ended[..] {
            [role] => role,
            _ => Role::Other,
        };
        roles[role as usize].cpu_seconds += (cpu_seconds - seen).max(0.0);
        for (role, at_once) in roles.iter_mut().zip(self.at_once) {
            role.at_once = at_once;
        }
        Some(Usage {
            seconds: 0.0,
            cpu_seconds: cpu_seconds.max(seen),
            counters: Counters::read()?.since(self.counters),
            roles,
        })
    }
}

/// Returns the processor time of all threads of this process, except this one's.
#[cfg(target_os = "linux")]
fn cpu_seconds_of_others() -> f64 {
    use rustix::time::{ClockId, clock_gettime};
    let seconds = |id| {
        let time = clock_gettime(id);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    seconds(ClockId::ProcessCPUTime) - seconds(ClockId::ThreadCPUTime)
}

#[cfg(not(target_os = "linux"))]
fn cpu_seconds_of_others() -> f64 {
    0.0
}

/// Returns the number of this thread.
fn own_id() -> Option<String> {
    let link = fs::read_link("/proc/thread-self").ok()?;
    Some(link.file_name()?.to_str()?.to_owned())
}

fn times(id: &str) -> Option<Times> {
    let text = fs::read_to_string(format!("{TASKS}/{id}/schedstat")).ok()?;
    let mut nanoseconds = text.split_whitespace().map(str::parse::<f64>);
    let mut seconds = || Some(nanoseconds.next()?.ok()? / 1e9);
    Some(Times {
        cpu_seconds: seconds()?,
        queued_seconds: seconds()?,
    })
}

fn role(id: &str) -> Role {
    let name = fs::read_to_string(format!("{TASKS}/{id}/comm")).unwrap_or_default();
    match name.trim_end().strip_prefix("zstn-") {
        Some("sha256" | "digest") => Role::Sha256,
        Some("source") => Role::File,
        Some(number) if number.parse::<usize>().is_ok() => Role::Worker,
        _ => Role::Other,
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    /// Runs until this thread has used the processor for 100 ms.
    fn work() {
        use rustix::time::{ClockId, clock_gettime};
        let used = || {
            let time = clock_gettime(ClockId::ThreadCPUTime);
            time.tv_sec * 1_000 + time.tv_nsec / 1_000_000
        };
        let start = used();
        while used() < start + 100 {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn the_time_of_each_thread_is_assigned_to_its_role() {
        let usage = measure(|| {
            thread::scope(|scope| {
                let start = |name: &str, run: fn()| {
                    let builder = thread::Builder::new().name(name.into());
                    builder.spawn_scoped(scope, run).expect("a thread");
                };
                start("zstn-sha256", work);
                start("zstn-sha256", work);
                start("zstn-7", || thread::sleep(Duration::from_millis(300)));
                work();
            });
            Ok(())
        });
        let usage = usage.expect("Linux reports the times");
        // The bounds are wide: a thread that ends may take its last milliseconds with it,
        // and other tests run in this process.
        let seconds = |role| usage.of(role).cpu_seconds;
        assert!((0.095..0.15).contains(&seconds(Role::File)));
        assert!((0.1..0.3).contains(&seconds(Role::Sha256)));
        assert!((0.095..0.18).contains(&usage.serial_seconds()));
        assert_eq!(usage.of(Role::Sha256).at_once, 2);
        assert!(usage.of(Role::Worker).at_once >= 1);
        let all: f64 = ROLES.iter().map(|&role| seconds(role)).sum();
        assert!((usage.cpu_seconds - all).abs() < 0.001);
        assert!(usage.seconds >= 0.3);
    }
}
