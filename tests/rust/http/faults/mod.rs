//! Every fault of a server must lead to its expected outcome: the correct bytes, or an
//! error that states the problem. Reads must never return wrong bytes and never hang.
//!
//! The cases are in `tests/faults/server.json`; the npm package runs the same table.

mod scripted;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, mpsc};
use std::thread;
use std::time::Duration;

use zstn::source::{HttpOptions, Location};
use zstn::{Effort, Engine, Error, Job, PackOptions, Reader, Result, Sink};
use zstn_core::container::zstn::pack;
use zstn_core::pure::Pure;
use zstn_tests::faults;
use zstn_tests::faults::server::{Logged, PATH, ROW_BYTES, ROWS, tensor};
use zstn_tests::faults::table::{Case, Tries};
use zstn_tests::faults::{
    CaseServer, Cell, Expected, Kind, Operation, Phase, Run, Side, Table, Times, server,
};
use zstn_tests::tier::{self, chosen};

/// Number of concurrent runs; most of them wait for a server.
const RUNS_AT_ONCE: usize = 48;
const RETRIES: usize = 3;
const TOKEN: &str = "a-secret-token";

/// Idle timeouts that end stalled cells; all other cells do not depend on time. On a
/// busy machine, a correct answer may exceed the first timeout, so a cell fails only if
/// it also fails with the second one.
const STALL_LIMITS: [Duration; 2] = [Duration::from_millis(300), Duration::from_secs(3)];
const NO_LIMIT: Duration = Duration::from_secs(15);

fn options(idle: Duration) -> HttpOptions {
    let mut options = HttpOptions::default();
    options.idle_timeout = idle;
    options.give_up_after = idle * 6;
    options.first_backoff = Duration::from_millis(2);
    options.max_unsized_bytes = 4 << 20;
    // Servers without ranges must be refused here; `without_ranges.rs` tests downloads
    // of whole files from them.
    options.max_full_download_bytes = 0;
    options
}

/// A cell to run with one surface and one file format.
struct Attempt<'a> {
    cell: &'a Cell,
    case: &'a Case,
    surface: &'a Surface,
    kind: Kind,
    /// The number of requests that a correct server receives.
    right_requests: usize,
}

#[test]
fn every_fault_has_its_outcome() {
    let table = Table::load();
    let cells = table.cells(Side::Native);
    let mut attempts = Vec::new();
    let mut right_requests = BTreeMap::new();
    for cell in &cells {
        let case = table.case(&cell.case).unwrap();
        for surface in SURFACES {
            if !surface.operations.contains(&cell.operation) {
                continue;
            }
            let kinds = cell.kinds.iter().copied();
            for kind in kinds.filter(|kind| surface.kinds.contains(kind)) {
                let key = format!("{:?} {kind:?} {}", cell.operation, surface.name);
                let count = || requests_to_a_right_server(&table, cell.operation, surface, kind);
                attempts.push(Attempt {
                    cell,
                    case,
                    surface,
                    kind,
                    right_requests: *right_requests.entry(key).or_insert_with(count),
                });
            }
        }
    }
    let attempts = chosen(attempts, |attempt| {
        let cell = attempt.cell;
        let place = format!("{:?} {:?} {:?}", cell.operation, cell.phase, cell.times);
        vec![
            format!("{} {:?}", cell.case, cell.times),
            place,
            attempt.surface.name.to_owned(),
            format!("{:?}", attempt.kind),
        ]
    });
    let next = AtomicUsize::new(0);
    let runs = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..RUNS_AT_ONCE {
            scope.spawn(|| {
                while let Some(attempt) = attempts.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let problem = attempt.problem();
                    runs.lock().unwrap().push(Run {
                        case: attempt.cell.case.clone(),
                        surface: format!("native {}", attempt.surface.name),
                        problem: problem.map(|problem| format!("{attempt}: {problem}")),
                    });
                }
            });
        }
    });
    let runs = runs.into_inner().unwrap();
    faults::write_report("native", &runs);
    let problems: Vec<_> = runs.iter().filter_map(|run| run.problem.clone()).collect();
    let (failed, all) = (problems.len(), runs.len());
    assert!(failed == 0, "{failed} of {all}:\n{}", problems.join("\n"));
    assert!(all > cells.len() || !tier::is_all());
}

fn requests_to_a_right_server(
    table: &Table,
    operation: Operation,
    surface: &Surface,
    kind: Kind,
) -> usize {
    let case = table.case("all well").unwrap();
    let server = CaseServer::start(case, operation, Phase::Opening, Times::Always, kind);
    (surface.read)(&server.url, &options(NO_LIMIT)).unwrap();
    server.log().len()
}

impl Attempt<'_> {
    /// Runs the cell, a second time with a longer timeout if it stalls. Returns the
    /// problem.
    fn problem(&self) -> Option<String> {
        if !self.cell.stalls {
            return self.run(NO_LIMIT).err();
        }
        let [limit, longer] = STALL_LIMITS;
        self.run(limit).err().and_then(|_| self.run(longer).err())
    }

    fn run(&self, limit: Duration) -> std::result::Result<(), String> {
        let Cell {
            operation,
            phase,
            times,
            expected,
            ..
        } = self.cell;
        let server = CaseServer::start(self.case, *operation, *phase, *times, self.kind);
        let found = self.read(&server.url, limit);
        let has_failed = found.is_err();
        self.judge(found, expected)?;
        let log = server.log();
        self.judge_requests(&log, expected)?;
        self.judge_headers(&log)?;
        if has_failed && *times == Times::Once && expected.faults == 1 {
            // After a single fault, the same server must be usable again.
            let again = self.read(&server.url, limit);
            self.judge_bytes(again, "model")
                .map_err(|problem| format!("again: {problem}"))?;
        }
        Ok(())
    }

    /// Reads from the server. A read that does not end is an error.
    fn read(&self, url: &str, limit: Duration) -> Result<Vec<u8>> {
        let options = options(limit).token(url, TOKEN)?;
        let (send, receive) = mpsc::channel();
        let (url, read) = (url.to_owned(), self.surface.read);
        thread::spawn(move || send.send(read(&url, &options)));
        receive
            .recv_timeout(Duration::from_secs(200))
            .unwrap_or_else(|_| Err(Error::Usage("does not end".into())))
    }

    fn judge(
        &self,
        found: Result<Vec<u8>>,
        expected: &Expected,
    ) -> std::result::Result<(), String> {
        if let Some(version) = &expected.bytes {
            return self.judge_bytes(found, version);
        }
        let failure = expected.failure.as_ref().ok_or("has no native outcome")?;
        let has_another_way = self.surface.has_another_way;
        let error = match found {
            // A single download must return the bytes of one version.
            Ok(bytes) if has_another_way => {
                let model = self.judge_bytes(Ok(bytes.clone()), "model");
                return model.or_else(|_| self.judge_bytes(Ok(bytes), "other"));
            }
            Ok(bytes) => return Err(format!("{} bytes, not {failure:?}", bytes.len())),
            Err(error) => error,
        };
        let text = error.to_string();
        let status = match &error {
            Error::Http { status, .. } => *status,
            _ => None,
        };
        let is_listed = error.code() == failure.code
            && text.contains(&failure.says)
            && status == expected.status;
        let fits = (is_listed || has_another_way)
            && text.contains("http://127.0.0.1")
            && !text.contains(TOKEN);
        let found = || format!("{} {status:?}: {text}, not {expected:?}", error.code());
        if fits { Ok(()) } else { Err(found()) }
    }

    fn judge_bytes(
        &self,
        found: Result<Vec<u8>>,
        version: &str,
    ) -> std::result::Result<(), String> {
        let bytes = found.map_err(|error| format!("{}: {error}", error.code()))?;
        let files = server::served(self.kind);
        let truth = match version {
            "other" => (self.surface.truth)(&server::plain(2), &files.other),
            _ => (self.surface.truth)(&server::plain(1), &files.bytes),
        };
        match bytes == truth {
            true => Ok(()),
            false => Err(format!("{} wrong bytes", bytes.len())),
        }
    }

    fn judge_requests(
        &self,
        log: &[Logged],
        expected: &Expected,
    ) -> std::result::Result<(), String> {
        if self.surface.has_another_way {
            return Ok(());
        }
        let before = usize::from(self.cell.phase == Phase::Later);
        let requests = log.iter().filter(|request| request.path == PATH).count();
        let fits = match expected.tries {
            None => true,
            Some(Tries::One) => requests == before + 1,
            // Reconnecting after an idle connection was closed does not count as a
            // retry.
            Some(Tries::All) => requests > before + RETRIES,
            Some(Tries::OneMore) => requests == self.right_requests + expected.faults,
        };
        if fits {
            return Ok(());
        }
        Err(format!("{requests} requests, not {:?}", expected.tries))
    }

    fn judge_headers(&self, log: &[Logged]) -> std::result::Result<(), String> {
        let token = format!("Bearer {TOKEN}");
        for (number, request) in log.iter().enumerate() {
            let sent = request.header("authorization");
            if sent != (!request.is_other_origin).then_some(&*token) {
                return Err(format!("the token: {request:?}"));
            }
            let Some(if_range) = &self.cell.if_range else {
                continue;
            };
            let is_first = number == 0 || self.cell.operation != Operation::Read;
            let condition = (!is_first && !if_range.is_empty()).then_some(&**if_range);
            if request.header("if-range") != condition {
                return Err(format!("If-Range: {request:?}"));
            }
        }
        Ok(())
    }
}

impl std::fmt::Display for Attempt<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}, {:?}, {}", self.cell, self.kind, self.surface.name)
    }
}

/// A way to read from a server.
struct Surface {
    name: &'static str,
    /// The operations that this surface performs.
    operations: &'static [Operation],
    /// The formats of the files that it reads.
    kinds: &'static [Kind],
    /// Reads from a URL.
    read: fn(&str, &HttpOptions) -> Result<Vec<u8>>,
    /// True if the surface falls back to downloading the whole file when a server does
    /// not answer ranges correctly. Cells that expect an error may then have another
    /// error or the correct bytes.
    has_another_way: bool,
    /// Computes the correct result from the plain file and the served file.
    truth: fn(plain: &[u8], served: &[u8]) -> Vec<u8>,
}

const ALL: &[Kind] = &[Kind::Safetensors, Kind::Zstn];
const DOWNLOAD: &[Operation] = &[Operation::Resumable, Operation::Plain];

const SURFACES: &[Surface] = &[
    Surface {
        name: "read",
        operations: &[Operation::Read],
        kinds: ALL,
        read: |url, options| Ok(open(url, options)?.read("y")?.bytes),
        has_another_way: false,
        truth: |plain, _| tensor(plain, "y").to_vec(),
    },
    Surface {
        name: "read rows",
        operations: &[Operation::Read],
        kinds: ALL,
        read: |url, options| Ok(open(url, options)?.read_rows("y", ROWS)?.bytes),
        has_another_way: false,
        truth: |plain, _| tensor(plain, "y")[ROW_BYTES].to_vec(),
    },
    Surface {
        name: "pack as it arrives",
        operations: &[Operation::Read],
        kinds: &[Kind::Safetensors],
        read: |url, options| {
            let job = Job::new().engine(&Engine::new(1)?).http(options.clone());
            let options = PackOptions::default().effort(Effort::Fast);
            let mut packed = Vec::new();
            let sink = Sink::writer(&mut packed);
            zstn::pack(&job, Location::url(url), sink, &options)?;
            Ok(packed)
        },
        has_another_way: true,
        truth: |plain, _| pack(&Pure, plain, Effort::Fast).expect("packed"),
    },
    Surface {
        name: "download",
        operations: DOWNLOAD,
        kinds: ALL,
        read: |url, options| {
            let copy = Location::url(url).fetch(options, &|_, _| ())?;
            Ok(copy.read_all()?.into_owned())
        },
        has_another_way: false,
        truth: |_, served| served.to_vec(),
    },
];

fn open(url: &str, options: &HttpOptions) -> Result<Reader> {
    Reader::options()
        .http(options.clone())
        .open(Location::url(url))
}
