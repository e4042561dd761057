//! Several servers at one address that give the same file different validators.

use std::time::Duration;

use zstn::source::{HttpOptions, Location};
use zstn::{Effort, Engine, Error, Input, Job, PackOptions, Reader, Result, Sink};
use zstn_core::model::Verify;
use zstn_tests::checkpoint;
use zstn_tests::fault_server::{ETAG, FaultServer, Served, right_parts, send};
use zstn_tests::rng::Rng;

/// The validator in the response to the request with a given number, as a header line.
const VALIDATORS: [fn(usize) -> String; 3] = [
    |number| format!("ETag: \"{number}\""),
    |number| format!("ETag: W/\"{number}\""),
    |number| format!("Last-Modified: Mon, 01 Jan 2024 00:00:{number:02} GMT"),
];

/// The length of a tensor that is stored in blocks, which can be read separately.
const TENSOR_BYTES: usize = 1 << 20;

fn plain(seed: u64) -> Vec<u8> {
    let mut rng = Rng(seed);
    let (x, y) = (rng.bf16_weights(TENSOR_BYTES / 2), rng.bf16_weights(5000));
    checkpoint(&[("x", "BF16", &x), ("y", "BF16", &y)])
}

fn tensors(plain: &[u8]) -> [&[u8]; 2] {
    let start = plain.len() - TENSOR_BYTES - 10_000;
    let (x, y) = plain[start..].split_at(TENSOR_BYTES);
    [x, y]
}

fn packed(plain: Vec<u8>, options: &PackOptions) -> Vec<u8> {
    let mut packed = Vec::new();
    zstn::pack(
        &Job::new().engine(&Engine::new(1).unwrap()),
        plain,
        Sink::writer(&mut packed),
        options,
    )
    .unwrap();
    packed
}

/// Serves `bytes` with a different validator in every answer, and ignores `If-Range`.
/// `change` modifies the body of each answer.
fn replicas(
    bytes: Vec<u8>,
    validator: fn(usize) -> String,
    change: impl Fn(usize, &mut Vec<u8>) + Send + Sync + 'static,
) -> FaultServer {
    let served = Served {
        bytes,
        other: Vec::new(),
    };
    FaultServer::start(served, move |asked, served, to| {
        let (head, mut body) = right_parts(asked, served);
        let head = String::from_utf8_lossy(&head).replace(ETAG, &validator(asked.number));
        change(asked.number, &mut body);
        send(to, head.as_bytes(), &body)
    })
}

fn open(url: &str, verify: Verify) -> Result<Reader> {
    let mut http = HttpOptions::default();
    http.idle_timeout = Duration::from_secs(10);
    let options = Reader::options().http(http).verify(verify);
    options.open(Location::url(url))
}

/// Checks that reading failed with the error for a changed file, and that its message
/// contains `says`.
fn check_changed<T>(found: Result<T>, says: &str) {
    let error = found.err().expect("an error");
    let text = error.to_string();
    assert!(matches!(error, Error::Changed { .. }), "{text}");
    assert!(
        text.contains(" instead of ") && text.contains(says),
        "{text}"
    );
}

const NOT_COMPARED: &str = "these bytes are not compared with checksums";

#[test]
fn whole_tensors_are_read_since_they_have_checksums_and_rows_are_not() {
    let plain = plain(1);
    let file = packed(plain.clone(), &PackOptions::default().effort(Effort::Fast));
    for validator in VALIDATORS {
        for verify in [Verify::Stored, Verify::Full] {
            let server = replicas(file.clone(), validator, |_, _| ());
            let reader = open(&server.url, verify).unwrap();
            check_changed(reader.read_rows("x", 5..10), NOT_COMPARED);
            let [x, y] = tensors(&plain);
            assert!(reader.read("x").unwrap().bytes == x);
            let (mut of_x, mut of_y) = (vec![0; x.len()], vec![0; y.len()]);
            reader.read_into("y", &mut of_y).unwrap();
            assert!(of_y == y);
            let wanted = vec![("x", &mut of_x[..]), ("y", &mut of_y[..])];
            reader.read_many_into(wanted, &()).unwrap();
            assert!(of_x == x && of_y == y);
            // Rows of short tensors are cut from the whole.
            assert!(reader.read_rows("y", 5..10).unwrap().bytes == y[10..20]);
        }
    }
}

#[test]
fn wrong_bytes_of_a_replica_are_a_changed_file() {
    let file = packed(plain(1), &PackOptions::default().effort(Effort::Fast));
    let other = packed(plain(2), &PackOptions::default().effort(Effort::Fast));
    for validator in VALIDATORS {
        for from in 2..=3 {
            let wrong = other.clone();
            let server = replicas(file.clone(), validator, move |number, body| {
                if number >= from {
                    let middle = body.len() / 2;
                    body[middle] ^= wrong[middle] | 1;
                }
            });
            let read = open(&server.url, Verify::Full).and_then(|reader| reader.read("x"));
            check_changed(read, "do not have the checksums in the file");
            assert!(server.log().len() <= 3, "{:?}", server.log());
        }
    }
}

#[test]
fn files_without_checksums_are_not_read_from_replicas() {
    let without = PackOptions::default().effort(Effort::Fast).integrity(false);
    for file in [plain(1), packed(plain(1), &without)] {
        for validator in VALIDATORS {
            let server = replicas(file.clone(), validator, |_, _| ());
            let read = open(&server.url, Verify::Full).and_then(|reader| reader.read("x"));
            check_changed(read, "checksums");
            assert!(server.log().len() <= 2, "{:?}", server.log());
        }
    }
}

#[test]
fn the_base_of_a_delta_is_read_from_replicas() {
    let (base, tuned) = (plain(1), plain(2));
    let packed_base = packed(base, &PackOptions::default().effort(Effort::Fast));
    let options = PackOptions::default().effort(Effort::Fast);
    let delta = packed(tuned.clone(), &options.base(packed_base.clone()));
    let server = replicas(packed_base, VALIDATORS[0], |_, _| ());
    let options = Reader::options().base(Location::url(&server.url));
    let reader = options.open(Input::from(delta)).unwrap();
    assert!(reader.read("x").unwrap().bytes == tensors(&tuned)[0]);
}
