//! Reading over HTTP takes few requests, and every server that violates the protocol
//! causes a clear error.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use zstn::{Engine, Location, Progress, Reader};
use zstn_core::container::model_delta;
use zstn_core::container::zstn::pack;
use zstn_core::frame::select::Effort;
use zstn_serve::{Served, Server};
use zstn_tests::rng::Rng;

/// Returns a checkpoint of 40 tensors of 1.5 MB and its packed file.
fn model() -> (Vec<u8>, Vec<u8>) {
    const LEN: usize = 1_500_000;
    let weights = Rng(21).bf16_weights(LEN / 2 + 40);
    let entries: Vec<String> = (0..40)
        .map(|i| {
            format!(
                "\"layers.{i}.weight\":{{\"dtype\":\"BF16\",\"shape\":[750,1000],\"data_offsets\":[{},{}]}}",
                i * LEN,
                (i + 1) * LEN
            )
        })
        .collect();
    let header = format!("{{{}}}", entries.join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    for i in 0..40 {
        // Each tensor differs slightly, so that none is stored as an alias.
        file.extend_from_slice(&weights[2 * i..2 * i + LEN]);
    }
    let packed = pack(&Engine::new(2).unwrap(), &file, Effort::Fast).unwrap();
    (file, packed)
}

/// A server with some files, and a log of its answers.
struct Site {
    url: String,
    log: Arc<Mutex<Vec<Served>>>,
    _folder: tempfile::TempDir,
}

fn serve(files: &[(&str, &[u8])]) -> Site {
    let folder = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    let server = Server::bind(folder.path(), SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
    let url = server.url();
    let log: Arc<Mutex<Vec<Served>>> = Arc::default();
    let seen = Arc::clone(&log);
    std::thread::spawn(move || server.run(move |served| seen.lock().unwrap().push(served)));
    Site {
        url,
        log,
        _folder: folder,
    }
}

impl Site {
    fn open(&self, name: &str) -> Reader {
        Reader::open(Location::url(format!("{}{name}", self.url))).unwrap()
    }
}

#[test]
fn one_tensor_costs_three_requests_and_its_own_bytes() {
    let (original, packed) = model();
    let served = serve(&[("m.zstn", &packed)]);
    let log = &served.log;
    let reader = served.open("m.zstn");
    let tensor = reader.read("layers.17.weight").unwrap();
    let info = &reader.model().tensors()[reader.model().find("layers.17.weight").unwrap()];
    let start = original.len() - reader.model().tensors().len() * 1_500_000;
    let truth = start + 17 * 1_500_000;
    assert!(tensor.bytes == original[truth..truth + 1_500_000]);
    assert_eq!(tensor.shape, [750, 1000]);

    let log = log.lock().unwrap();
    assert!(log.len() <= 3, "{log:?}");
    assert!(log.iter().all(|served| served.status == 206));
    let fetched: u64 = log.iter().map(|served| served.body_bytes).sum();
    let header_and_index = 2 * start as u64;
    let most = info.stored_len_bytes() + header_and_index + (64 << 10);
    assert!(fetched <= most, "{fetched} bytes, allowed {most}");
}

#[test]
fn all_tensors_cost_few_requests_and_no_byte_twice() {
    let (original, packed) = model();
    let served = serve(&[("m.zstn", &packed)]);
    let log = &served.log;
    let reader = served.open("m.zstn");
    let opened = log.lock().unwrap().len();
    let names: Vec<String> = (0..40).map(|i| format!("layers.{i}.weight")).collect();
    let mut read = vec![0; 40 * 1_500_000];
    let names = names.iter().map(String::as_str);
    let wanted = names.zip(read.chunks_mut(1_500_000)).collect();
    let counted = Counted::default();
    reader.read_many_into(wanted, &counted).unwrap();
    assert!(original.ends_with(&read));
    let done = counted.done.into_inner();
    assert_eq!((counted.total.into_inner(), done), (60_000_000, 60_000_000));

    let log = log.lock().unwrap();
    let fetched = log[opened..].iter().map(|served| served.body_bytes);
    // A request fetches at most 16 MiB.
    assert!(log.len() - opened <= packed.len() / (8 << 20), "{log:?}");
    assert!(fetched.sum::<u64>() <= packed.len() as u64, "{log:?}");
}

#[derive(Default)]
struct Counted {
    total: AtomicU64,
    done: AtomicU64,
}

impl Progress for Counted {
    fn begin(&self, len_bytes: u64) {
        self.total.fetch_add(len_bytes, Relaxed);
    }

    fn advance(&self, len_bytes: u64) {
        self.done.fetch_add(len_bytes, Relaxed);
    }
}

#[test]
fn one_tensor_of_a_fine_tune_costs_three_requests_to_each_file() {
    let (original, packed) = model();
    let mut tuned = original.clone();
    let data_start = original.len() - 40 * 1_500_000;
    for byte in tuned[data_start + 17 * 1_500_000..]
        .iter_mut()
        .step_by(1000)
    {
        *byte ^= 1;
    }
    let engine = Engine::new(2).unwrap();
    let base = model_delta::Base::parse(&original).unwrap();
    let delta = model_delta::pack(&engine, &tuned, &base, Effort::Fast).unwrap();
    let served = serve(&[("m.zstn", &packed), ("t.z4dm", &delta)]);
    let log = &served.log;
    let open = |name: &str| served.open(name);
    let reader = open("t.z4dm");
    let error = reader.read("layers.17.weight").unwrap_err();
    assert!(matches!(error, zstn::Error::NeedsBase { .. }), "{error}");
    let reader = reader.with_base(open("m.zstn")).unwrap();
    let changed = data_start + 17 * 1_500_000;
    let tensor = reader.read("layers.17.weight").unwrap();
    assert!(tensor.bytes == tuned[changed..changed + 1_500_000]);
    {
        let log = log.lock().unwrap();
        assert!(log.len() <= 6, "{log:?}");
        let info = |reader: &Reader| {
            let tensor = reader.find("layers.17.weight").unwrap();
            tensor.stored_len_bytes()
        };
        let fetched: u64 = log.iter().map(|served| served.body_bytes).sum();
        let most = info(&reader) + info(reader.base().unwrap()) + (2 << 16);
        assert!(fetched <= most, "{fetched} bytes, allowed {most}");
    }
    let before = log.lock().unwrap().len();
    let tensor = reader.read("layers.3.weight").unwrap();
    let same = data_start + 3 * 1_500_000;
    assert!(tensor.bytes == original[same..same + 1_500_000]);
    assert_eq!(
        log.lock().unwrap().len(),
        before + 1,
        "a copy is read from the base"
    );
}

/// Starts a server that answers every request with these bytes and closes the
/// connection.
fn answering(answer: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/m.zstn", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten().take(8) {
            let mut lines = BufReader::new(&stream).lines();
            while lines.next().is_some_and(|l| l.is_ok_and(|l| !l.is_empty())) {}
            let _ = (&stream).write_all(&answer);
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = (&stream).read_to_end(&mut Vec::new());
        }
    });
    url
}

fn http(head: &str, body: &[u8]) -> Vec<u8> {
    let mut answer = format!("HTTP/1.1 {head}\r\nConnection: close\r\n\r\n").into_bytes();
    answer.extend_from_slice(body);
    answer
}

#[test]
fn servers_that_do_not_behave_get_a_sentence() {
    let (_, packed) = model();
    let len = packed.len();
    let html = b"<!doctype html><html><body>Sign in</body></html>";
    for (answer, sentence) in [
        (
            http("404 Not Found\r\nContent-Length: 0", b""),
            "no such file",
        ),
        (http("403 Forbidden\r\nContent-Length: 0", b""), "login"),
        (
            http("500 Oops\r\nContent-Length: 0", b""),
            "try again later",
        ),
        (
            http(
                &format!("200 OK\r\nContent-Length: {len}"),
                &packed[..60_000],
            ),
            &format!("ended after 60000 of {len} bytes"),
        ),
        (
            http(
                &format!("200 OK\r\nContent-Length: {}", 65 << 20),
                &packed[..60_000],
            ),
            "ignores range requests, and files of more than 67108864 bytes",
        ),
        (
            http(&format!("200 OK\r\nContent-Length: {}", html.len()), html),
            "web page",
        ),
        (
            http(
                &format!(
                    "206 Partial Content\r\nContent-Range: bytes 0-32767/{len}\r\nContent-Length: 32768"
                ),
                &packed[..9000],
            ),
            "ended after 9000 of 32768 bytes",
        ),
        (
            http(
                &format!(
                    "206 Partial Content\r\nContent-Range: bytes 0-{}/{}\r\nContent-Length: {}",
                    html.len() - 1,
                    html.len(),
                    html.len()
                ),
                html,
            ),
            "web page",
        ),
        (
            http(
                "206 Partial Content\r\nContent-Length: 32768",
                &packed[..32768],
            ),
            "nor the length of the file",
        ),
        (
            http(
                "416 Range Not Satisfiable\r\nContent-Range: bytes */0\r\nContent-Length: 0",
                b"",
            ),
            "the file is empty",
        ),
        (
            http("416 Range Not Satisfiable\r\nContent-Length: 0", b""),
            "does not say that it is empty",
        ),
        (b"this is not HTTP\r\n\r\n".to_vec(), "not valid HTTP"),
    ] {
        let url = answering(answer);
        let error = Reader::open(Location::url(&url))
            .err()
            .expect(sentence)
            .to_string();
        assert!(
            error.contains(sentence),
            "expected \"{sentence}\" in: {error}"
        );
        assert!(error.contains(&url), "{error}");
    }
}
