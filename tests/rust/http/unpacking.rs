//! Restoring and verifying packed files and shards on a server.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use zstn::{CancelToken, Engine, Error, Job, Location, PackOptions, UnpackOptions, VerifyOptions};
use zstn_tests::checkpoint;
use zstn_tests::command::{program, text};
use zstn_tests::fault_server::{
    Asked, Behaviour, FaultServer, Served, Then, begin, drip, head, right, right_parts, send,
};
use zstn_tests::rng::Rng;

use crate::cancelled;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const INDEX: &str = "m.zstn.index.json";

/// How the server sends the data of shards.
#[derive(Clone, Copy)]
enum Sending {
    /// After 300 ms.
    Late,
    /// The shard `b` after 600 ms, and the others at once.
    LateB,
    /// Byte by byte.
    Slowly,
}

/// A server for five packed shards.
struct Shards {
    server: FaultServer,
    /// The largest number of shards whose data were being sent at the same time.
    at_once: Arc<AtomicUsize>,
}

impl Shards {
    /// Serves `files`, with the shards in `damaged` changed.
    fn serve(mut files: BTreeMap<String, Vec<u8>>, damaged: &[&str], sending: Sending) -> Self {
        for name in damaged {
            let shard = files.get_mut(&format!("{name}.zstn")).unwrap();
            let middle = shard.len() / 2;
            shard[middle] ^= 1;
        }
        let at_once = Arc::<AtomicUsize>::default();
        let (sent, most) = (AtomicUsize::new(0), Arc::clone(&at_once));
        let longest = Served {
            bytes: vec![0; files.values().map(Vec::len).max().unwrap()],
            other: Vec::new(),
        };
        let server = FaultServer::start(longest, move |asked, _, to| {
            let Some(bytes) = files.get(asked.path.trim_start_matches('/')) else {
                return send(to, &head("404 Not Found", &["Content-Length: 0"]), b"");
            };
            let mut asked = asked.clone();
            let range = asked.range.take();
            asked.range = range.map(|range| range.start..range.end.min(bytes.len()));
            let served = Served {
                bytes: bytes.clone(),
                other: Vec::new(),
            };
            // Headers and indexes are shorter than data.
            let is_short = |range: &Range<usize>| range.len() < 20_000 || range.end == 32 << 10;
            if asked.range.as_ref().is_none_or(is_short) {
                return right(&asked, &served, to);
            }
            most.fetch_max(sent.fetch_add(1, SeqCst) + 1, SeqCst);
            let wait_ms = match sending {
                Sending::Late => 300,
                Sending::LateB if asked.path.ends_with("b.zstn") => 600,
                _ => 0,
            };
            thread::sleep(Duration::from_millis(wait_ms));
            let done = match sending {
                Sending::Slowly => {
                    let (head, body) = right_parts(&asked, &served);
                    send(to, &head, b"").and_then(|_| drip(to, body))
                }
                _ => right(&asked, &served, to).map(|_| Then::Close),
            };
            sent.fetch_sub(1, SeqCst);
            done
        });
        Self { server, at_once }
    }

    fn input(&self) -> Location {
        Location::url(self.server.url.replace("model", INDEX))
    }

    fn unpack(&self, job: &Job, to: &Path) -> zstn::Result<()> {
        zstn::unpack(job, self.input(), to, &UnpackOptions::default()).map(drop)
    }
}

fn job() -> Job<'static> {
    Job::new().engine(&Engine::new(2).unwrap())
}

/// Packs five shards in `folder`. Returns the packed files by name.
fn packed(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let plain = folder.join("plain");
    fs::create_dir(&plain).unwrap();
    let mut weights = BTreeMap::new();
    for name in NAMES {
        let bytes = Rng(name.as_bytes()[0].into()).bf16_weights(30_000);
        let file = format!("{name}.safetensors");
        fs::write(plain.join(&file), checkpoint(&[(name, "BF16", &bytes)])).unwrap();
        weights.insert(name, file);
    }
    let index = serde_json::json!({ "weight_map": weights }).to_string();
    fs::write(plain.join("m.safetensors.index.json"), index).unwrap();
    let packed = folder.join("packed");
    zstn::pack(&job(), &plain, &packed, &PackOptions::default()).unwrap();
    read(&packed)
}

fn read(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().flatten();
    let files = entries.map(|entry| {
        let name = entry.file_name().into_string().unwrap();
        (name, fs::read(entry.path()).unwrap())
    });
    files.collect()
}

#[test]
fn shards_are_received_at_the_same_time_within_the_memory() {
    let folder = tempfile::tempdir().unwrap();
    let files = packed(folder.path());
    let shards = Shards::serve(files, &[], Sending::Late);
    let restored = folder.path().join("restored");
    let small = job().memory_bytes(128 << 20);
    shards.unpack(&small, &restored).unwrap();
    assert!(read(&restored) == read(&folder.path().join("plain")));
    assert_eq!(shards.at_once.load(SeqCst), 2, "64 MiB for each");
    zstn::verify(&job(), shards.input(), &VerifyOptions::default()).unwrap();
    assert_eq!(shards.at_once.load(SeqCst), 4);
}

#[test]
fn the_first_damaged_shard_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let files = packed(folder.path());
    let shards = Shards::serve(files, &["b", "c", "d"], Sending::LateB);
    let restored = folder.path().join("restored");
    let unpacked = shards.unpack(&job(), &restored);
    let verified = zstn::verify(&job(), shards.input(), &VerifyOptions::default());
    for result in [unpacked, verified.map(drop)] {
        let error = result.unwrap_err().to_string();
        assert!(error.contains("/b.zstn"), "{error}");
    }
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
}

#[test]
fn cancelled_work_does_not_wait_for_slow_shards() {
    let folder = tempfile::tempdir().unwrap();
    let files = packed(folder.path());
    let shards = Shards::serve(files, &[], Sending::Slowly);
    let token = CancelToken::new();
    let job = job().cancel_token(&token);
    let begun = || shards.at_once.load(SeqCst) >= 4;
    let work = || shards.unpack(&job, &folder.path().join("restored"));
    let (result, took) = cancelled(&token, begun, work);
    assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
    // The server needs minutes. A busy machine may need more than a fifth of a second.
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
}

/// Returns a checkpoint of 12 MiB, in which two tensors are equal, and its packed file.
fn large() -> &'static (Vec<u8>, Vec<u8>) {
    static LARGE: OnceLock<(Vec<u8>, Vec<u8>)> = OnceLock::new();
    LARGE.get_or_init(|| {
        let mut rng = Rng(9);
        let weights: Vec<_> = (0..12).map(|_| rng.bf16_weights(1 << 19)).collect();
        let names: Vec<_> = (10..22).map(|number| format!("layer.{number}")).collect();
        let tensors = names.iter().zip(&weights);
        let mut tensors: Vec<_> = tensors
            .map(|(name, bytes)| (name.as_str(), "BF16", bytes.as_slice()))
            .collect();
        tensors[8].2 = &weights[3];
        let plain = checkpoint(&tensors);
        let input = zstn::Input::bytes("large", plain.clone());
        let mut packed = Vec::new();
        let to = zstn::Sink::writer(&mut packed);
        zstn::pack(&job(), input, to, &PackOptions::default()).unwrap();
        (plain, packed)
    })
}

fn serve(bytes: Vec<u8>, behaviour: impl Behaviour) -> FaultServer {
    let other = Vec::new();
    FaultServer::start(Served { bytes, other }, behaviour)
}

/// Runs the program without a folder for temporary files.
fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.args(arguments).current_dir(folder);
    for variable in ["TMPDIR", "TMP"] {
        command.env(variable, folder.join("missing"));
    }
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn a_container_is_decoded_while_it_arrives() {
    let folder = tempfile::tempdir().unwrap();
    let (plain, packed) = large();
    let len = packed.len();
    let server = serve(packed.clone(), |asked, served, to| match asked.number {
        4 | 6 => {
            begin(asked, served, to, 700_000)?;
            Ok(Then::Close)
        }
        _ => right(asked, served, to),
    });
    for arguments in [
        &["unpack", &server.url, "-o", "restored"][..],
        &["unpack", &server.url, "-o", "small", "--memory", "16M"],
        &["verify", &server.url],
        &["verify", "--fast", &server.url],
    ] {
        let before = server.log().len();
        let out = run(folder.path(), arguments);
        assert!(out.status.success(), "{}", text(&out.stderr));
        if let ["unpack", _, _, name, ..] = arguments {
            assert!(fs::read(folder.path().join(name)).unwrap() == *plain);
        }
        let log = &server.log()[before..];
        let asked: usize = log
            .iter()
            .map(|asked| asked.range.as_ref().map_or(len, Range::len))
            .sum();
        // A broken response is requested again. Otherwise, only the alias is read twice.
        let is_broken = log.iter().any(|asked| asked.if_range.is_some());
        assert!(
            is_broken || asked < len + len / 4,
            "{arguments:?}: {asked} of {len} bytes"
        );
    }
    let mut restored = Vec::new();
    let input = Location::url(&server.url);
    let sink = zstn::Sink::writer(&mut restored);
    zstn::unpack(&job(), input, sink, &UnpackOptions::default()).unwrap();
    assert!(restored == *plain);
}

#[test]
fn damage_and_broken_servers_leave_no_output() {
    let folder = tempfile::tempdir().unwrap();
    let mut packed = large().1.clone();
    let middle = packed.len() / 2;
    let broken = serve(packed.clone(), move |asked, served, to| {
        match asked
            .range
            .as_ref()
            .is_some_and(|range| range.contains(&middle))
        {
            true => Ok(Then::Close),
            false => right(asked, served, to),
        }
    });
    packed[middle] ^= 1;
    let damaged = serve(packed, right);
    for (url, expected) in [(&damaged.url, "layer.1"), (&broken.url, "connection")] {
        for arguments in [&["unpack", url, "-o", "restored"][..], &["verify", url]] {
            let out = run(folder.path(), arguments);
            let message = text(&out.stderr);
            assert!(
                !out.status.success() && message.contains(expected),
                "{message}"
            );
            assert_eq!(fs::read_dir(&folder).unwrap().count(), 0, "{message}");
        }
    }
}

#[test]
fn cancelling_does_not_wait_for_a_slow_container() {
    let folder = tempfile::tempdir().unwrap();
    // The first bytes and the index arrive, and the other frames hardly do.
    let is_frames = |asked: &Asked| {
        let range = asked.range.as_ref();
        range.is_some_and(|range| range.start > 0 && range.len() > 1 << 20)
    };
    let server = serve(large().1.clone(), move |asked, served, to| {
        if !is_frames(asked) {
            return right(asked, served, to);
        }
        let (head, body) = right_parts(asked, served);
        send(to, &head, b"").and_then(|_| drip(to, body))
    });
    let token = CancelToken::new();
    let job = job().cancel_token(&token);
    let begun = || server.log().iter().any(is_frames);
    let work = || {
        let to = folder.path().join("restored");
        zstn::unpack(
            &job,
            Location::url(&server.url),
            to,
            &UnpackOptions::default(),
        )
    };
    let (result, took) = cancelled(&token, begun, work);
    assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
}
