//! Restoring and verifying the packed shards of a checkpoint on a server.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use zstn::{CancelToken, Engine, Error, Job, Location, PackOptions, UnpackOptions, VerifyOptions};
use zstn_tests::checkpoint;
use zstn_tests::fault_server::{FaultServer, Served, Then, drip, head, right, right_parts, send};
use zstn_tests::rng::Rng;

use crate::cancelled;

const NAMES: [&str; 5] = ["a", "b", "c", "d", "e"];
const INDEX: &str = "m.zstn.index.json";

/// How the server sends whole shards.
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
    /// The largest number of whole shards that were being sent at the same time.
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
            if asked.range.is_some() || asked.path.ends_with(INDEX) {
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
