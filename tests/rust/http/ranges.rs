//! Reading ranges: several of one file with few concurrent requests, and from servers
//! that only send whole files, such as Python's `http.server`.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use zstn::source::{FileSource, HttpOptions, Remote, Source};
use zstn::{Engine, Error, Input, Location, Reader};
use zstn_core::container::zstn::pack;
use zstn_core::frame::select::Effort;
use zstn_tests::checkpoint;
use zstn_tests::command::{KillOnDrop, zstn};
use zstn_tests::fault_server::{Behaviour, FaultServer, Served, Then, begin, head, right, send};
use zstn_tests::rng::Rng;
use zstn_tests::round_server::{Page, RoundServer};

/// A distance between ranges greater than the longest gap that a reader bridges.
const FAR: u64 = 100 << 10;

fn bytes(len: u64) -> Vec<u8> {
    Rng(5).bytes(usize::try_from(len).unwrap())
}

/// Opens `file` on a server and reads only its first byte.
fn serve(file: Vec<u8>) -> (RoundServer, Remote) {
    let server = RoundServer::start();
    let url = server.add("file", Page::File(file));
    let remote = Remote::open(&url, 1, &HttpOptions::default()).unwrap();
    (server, remote)
}

fn part(file: &[u8], range: &Range<u64>) -> Vec<u8> {
    zstn_core::bytes::part(file, range.clone()).to_vec()
}

/// Checks that `source` returns these ranges of `file`.
fn check(source: &dyn Source, file: &[u8], ranges: &[Range<u64>]) {
    let read = source.read_ranges(ranges).unwrap();
    assert_eq!(read.len(), ranges.len());
    for (bytes, range) in read.iter().zip(ranges) {
        assert!(**bytes == part(file, range), "{range:?}");
    }
}

#[test]
fn every_source_gives_every_range_in_order() {
    let file = bytes(1 << 20);
    let (_server, remote) = serve(file.clone());
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("file");
    std::fs::write(&path, &file).unwrap();
    let shared = Arc::new(serve(file.clone()).1);
    let local = FileSource::open(&path).unwrap();
    let ranges = [
        900_000..1 << 20,
        5..5,
        0..10,
        500_000..600_000,
        0..10,
        550_000..550_001,
        3..300_000,
        1 << 20..1 << 20,
    ];
    for source in [&remote as &dyn Source, &local, &shared] {
        check(source, &file, &ranges);
        check(source, &file, &[]);
        let beyond = (1 << 20) - 5..(1 << 20) + 5;
        let error = source.read_ranges(&[0..10, beyond]).unwrap_err();
        assert!(matches!(error, Error::Usage(_)), "{error}");
    }
}

#[test]
fn close_ranges_share_a_request_of_limited_length() {
    let file = bytes(40 << 20);
    let (server, remote) = serve(file.clone());
    let asked = |ranges: &[Range<u64>]| {
        server.expect_rounds(&[]);
        check(&remote, &file, ranges);
        let log = server.finished_rounds().into_iter();
        let asked = log.filter_map(|request| request.range);
        let mut asked: Vec<_> = asked.map(|range| (range.start, range.end)).collect();
        asked.sort_unstable();
        asked
    };
    const GAP: u64 = 64 << 10;
    const GAP_LEN: usize = 64 << 10;
    assert_eq!(asked(&[20 + GAP..30 + GAP, 10..20]), [(10, 30 + GAP_LEN)]);
    assert_eq!(
        asked(&[21 + GAP..30 + GAP, 10..20]),
        [(10, 20), (21 + GAP_LEN, 30 + GAP_LEN)]
    );
    let mib = |n: u64| n << 20;
    assert_eq!(
        asked(&[0..mib(9), mib(9)..mib(16), mib(16)..mib(17)]),
        [(0, 16 << 20), (16 << 20, 17 << 20)]
    );
    // A single range can have any length.
    assert_eq!(asked(&[0..mib(30), mib(29)..mib(30)]), [(0, 30 << 20)]);
}

#[test]
fn at_most_eight_requests_are_under_way() {
    let file = bytes(20 * FAR);
    let (server, remote) = serve(file.clone());
    let ranges: Vec<_> = (0..20).map(|i| i * FAR..i * FAR + 10).collect();
    server.expect_rounds(&[8, 8, 4]);
    check(&remote, &file, &ranges);
    assert_eq!(server.finished_rounds().len(), 20);
}

/// Reads 20 distant ranges from a server with this behaviour.
fn read_from(behaviour: impl Behaviour) -> zstn::Result<()> {
    let file = bytes(20 * FAR);
    let served = Served {
        bytes: file.clone(),
        other: Vec::new(),
    };
    let mut options = HttpOptions::default();
    options.first_backoff = Duration::from_millis(2);
    let server = FaultServer::start(served, behaviour);
    let remote = Remote::open(&server.url, 1, &options)?;
    let ranges: Vec<_> = (0..20).map(|i| i * FAR..i * FAR + 1000).collect();
    let read = remote.read_ranges(&ranges)?;
    for (bytes, range) in read.iter().zip(&ranges) {
        assert!(**bytes == part(&file, range), "{range:?}");
    }
    Ok(())
}

#[test]
fn each_request_is_tried_again_by_itself() {
    // The first attempt at each range fails. Failing every third request instead could
    // fail all attempts at the same range.
    let seen = Mutex::new(HashSet::new());
    read_from(move |asked, served, to| {
        let is_first = seen.lock().unwrap().insert(asked.range.clone());
        match is_first && asked.number > 1 {
            true => {
                let lines = ["Retry-After: 0", "Content-Length: 0"];
                send(to, &head("503 Service Unavailable", &lines), b"")
            }
            false => right(asked, served, to),
        }
    })
    .unwrap();
    // The connection ends within a body.
    read_from(|asked, served, to| match asked.number {
        4 | 9 => {
            begin(asked, served, to, 300)?;
            Ok(Then::Reset)
        }
        _ => right(asked, served, to),
    })
    .unwrap();
}

#[test]
fn every_answer_is_checked() {
    let error = read_from(|asked, served, to| match asked.number {
        12 => {
            let lines = [
                "Content-Length: 1000",
                "ETag: \"v2\"",
                "Content-Range: bytes 0-999/*",
            ];
            send(
                to,
                &head("206 Partial Content", &lines),
                &served.bytes[..1000],
            )
        }
        _ => right(asked, served, to),
    });
    assert!(matches!(error, Err(Error::Changed { .. })), "{error:?}");
    let error = read_from(|asked, served, to| match asked.number {
        12 => {
            let lines = [
                "Content-Length: 9",
                "ETag: \"v1\"",
                "Content-Range: bytes 1-9/2048000",
            ];
            send(to, &head("206 Partial Content", &lines), &[0; 9])
        }
        _ => right(asked, served, to),
    });
    let text = error.unwrap_err().to_string();
    assert!(text.contains("other bytes than were requested"), "{text}");
    let error = read_from(|asked, served, to| match asked.number {
        12 => send(to, &head("404 Not Found", &["Content-Length: 0"]), b""),
        _ => right(asked, served, to),
    });
    assert!(
        matches!(
            error,
            Err(Error::Http {
                status: Some(404),
                ..
            })
        ),
        "{error:?}"
    );
}

/// A faulty source that omits the last of several ranges, or the last byte of one.
struct Short(Vec<u8>, usize);

impl Source for Short {
    fn name(&self) -> &'static str {
        "short"
    }

    fn len_bytes(&self) -> u64 {
        self.0.len() as u64
    }

    fn read(&self, range: Range<u64>) -> zstn::Result<Cow<'_, [u8]>> {
        Ok(Cow::Borrowed(zstn_core::bytes::part(&self.0, range)))
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> zstn::Result<Vec<Cow<'_, [u8]>>> {
        let kept = ranges[..ranges.len() - self.1].iter();
        let short = |range: &Range<u64>| range.start..range.end - 1 + self.1 as u64;
        kept.map(|range| self.read(short(range))).collect()
    }
}

#[test]
fn a_source_that_gives_too_little_is_refused() {
    let weights = Rng(6).bf16_weights(60_000);
    let plain = checkpoint(&[("w", "BF16", &weights)]);
    let packed = pack(&Engine::new(1).unwrap(), &plain, Effort::Fast).unwrap();
    for missing in [0, 1] {
        let source = Short(packed.clone(), missing);
        let error = Reader::open(Input::source(source)).err().unwrap();
        let text = error.to_string();
        assert!(text.contains("short gave other numbers of bytes"), "{text}");
    }
}

/// A `python3 -m http.server` process for a folder with `m.safetensors` and `m.zstn`.
struct PythonServer {
    _process: KillOnDrop,
    url: String,
    weights: Vec<u8>,
    packed_len: usize,
    folder: tempfile::TempDir,
}

impl PythonServer {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let weights = Rng(4).bf16_weights(256 * 1000);
        let file = checkpoint(&[("w", "BF16", &weights)]);
        let packed = pack(&Engine::new(1).unwrap(), &file, Effort::Fast).unwrap();
        std::fs::write(folder.path().join("m.safetensors"), file).unwrap();
        std::fs::write(folder.path().join("m.zstn"), &packed).unwrap();
        let mut child = Command::new("python3")
            .args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1"])
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("Python");
        let mut line = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let port = line
            .split(" port ")
            .nth(1)
            .and_then(|rest| rest.split(' ').next());
        Self {
            url: format!("http://127.0.0.1:{}", port.expect("a port")),
            _process: KillOnDrop(child),
            weights,
            packed_len: packed.len(),
            folder,
        }
    }
}

#[test]
#[cfg_attr(windows, ignore = "wine has no Python")]
fn a_short_file_is_read_whole() {
    let server = PythonServer::start();
    for name in ["m.safetensors", "m.zstn"] {
        let url = format!("{}/{name}", server.url);
        let reader = Reader::open(Location::url(&url)).unwrap();
        assert!(reader.read("w").unwrap().bytes == server.weights, "{name}");
        let listed = zstn(server.folder.path(), &["ls", &url]);
        assert!(listed.status.success(), "{listed:?}");
    }
    let page = Reader::open(Location::url(format!("{}/", server.url)));
    let page = page.err().expect("a folder is no model");
    assert!(page.to_string().contains("web page"), "{page}");
}

#[test]
#[cfg_attr(windows, ignore = "wine has no Python")]
fn a_longer_one_is_refused() {
    let server = PythonServer::start();
    let location = Location::url(format!("{}/m.zstn", server.url));
    for most in [0, server.packed_len as u64 - 1, server.packed_len as u64] {
        let mut http = HttpOptions::default();
        http.max_full_download_bytes = most;
        match Reader::options().http(http).open(location.clone()) {
            Ok(reader) => {
                assert_eq!(most, server.packed_len as u64);
                assert!(reader.read("w").unwrap().bytes == server.weights);
            }
            Err(error) => {
                assert!(most < server.packed_len as u64, "{error}");
                assert!(
                    error.to_string().contains("ignores range requests"),
                    "{error}"
                );
            }
        }
    }
}

#[test]
fn the_command_line_sets_the_longest() {
    let server = PythonServer::start();
    let url = format!("{}/m.zstn", server.url);
    let longer = (server.packed_len + 1).to_string();
    for verb in [
        &["ls"][..],
        &["info"],
        &["get", "w", "--summary"],
        &["verify"],
    ] {
        let (name, more) = verb.split_first().unwrap();
        for (most, status) in [("0", 3), ("1k", 3), (&longer, 0), ("1G", 0)] {
            let option = ["--max-full-download", most];
            let arguments = [&[*name, &url], more, &option].concat();
            let out = zstn(server.folder.path(), &arguments);
            let said = String::from_utf8_lossy(&out.stderr).into_owned();
            assert_eq!(out.status.code(), Some(status), "{name} {most}: {said}");
            assert_eq!(
                said.contains("ignores range requests"),
                status == 3,
                "{said}"
            );
        }
    }
    let out = zstn(server.folder.path(), &["ls", &url, "-v"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(
        said.contains("m.zstn: its server ignores ranges, so all "),
        "{said}"
    );
    let out = zstn(
        server.folder.path(),
        &["ls", &url, "--max-full-download", "many"],
    );
    assert_eq!(out.status.code(), Some(2));
}
