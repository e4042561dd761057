//! Reading over HTTP takes few requests and few round trips, and every server that
//! violates the protocol causes a clear error.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use zstn::{Engine, Job, Location, PackOptions, Progress, Reader, UnpackOptions, VerifyOptions};
use zstn_core::container::model_delta;
use zstn_core::container::zstn::pack;
use zstn_core::frame::select::Effort;
use zstn_serve::{Served, Server};
use zstn_tests::archives::{Archive, state_dict};
use zstn_tests::cases;
use zstn_tests::protobuf;
use zstn_tests::rng::Rng;
use zstn_tests::round_server::{Page, RoundServer};
use zstn_tests::{checkpoint, with_header, ztensor2};

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
    let mut file = with_header(header, b"");
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
fn a_shard_of_ztensor_is_fetched_once_its_first_tensor_is_read() {
    // Requests for the two ends of a short file would be merged.
    let mut blobs: Vec<&[u8]> = vec![b"abcd", b"efgh"];
    blobs.resize(256, b"of no tensor");
    let shard = ztensor2::data_shard(&blobs);
    let entry = ztensor2::map(&[
        ("size", ztensor2::number(shard.len())),
        ("digest", ztensor2::text("xxh3:0000000000000000")),
    ]);
    let far = |page| {
        let part = ztensor2::part(page, "u8", 4, &[("shard", ztensor2::text("far"))]);
        ztensor2::tensor(&[4], "dense", &[("data", part)])
    };
    let root = [
        ("objects", ztensor2::map(&[("a", far(0)), ("b", far(1))])),
        ("shards", ztensor2::map(&[("far", entry)])),
    ];
    let served = serve(&[("m.zt", &ztensor2::file(&root, &[])), ("m-far.zt", &shard)]);
    let fetched = || -> Vec<u64> {
        let log = served.log.lock().unwrap();
        log.iter().map(|served| served.body_bytes).collect()
    };
    let reader = served.open("m.zt");
    assert_eq!(reader.names().collect::<Vec<_>>(), ["a", "b"]);
    let listing = fetched();
    assert_eq!(listing.len(), 1, "{listing:?}");
    assert_eq!(reader.read("a").unwrap().bytes, b"abcd");
    // The magic, the footer and the tensor.
    assert_eq!(fetched()[1..], [8, 40, 4]);
    assert_eq!(reader.read("b").unwrap().bytes, b"efgh");
    assert_eq!(fetched()[4..], [4]);
}

#[test]
fn a_gguf_file_is_listed_by_one_request_and_rows_fetch_their_blocks() {
    let file = cases::read("gguf", "k-blocks.gguf");
    // The data of real files are long.
    let padded = [file.as_slice(), &[0; 1 << 20]].concat();
    let served = serve(&[("m.gguf", &padded)]);
    let reader = served.open("m.gguf");
    let requests = || -> Vec<u64> {
        let log = served.log.lock().unwrap();
        assert!(log.iter().all(|served| served.status == 206));
        log.iter().map(|served| served.body_bytes).collect()
    };
    assert_eq!(reader.names().count(), 5);
    assert_eq!(requests(), [32 << 10]);
    let rows = reader.read_rows("w.q4_k", 1..2).unwrap();
    assert_eq!(rows.shape, [1, 512]);
    assert_eq!(requests(), [32 << 10, 2 * 144]);
    let whole = reader.read("w.q4_k").unwrap();
    assert!(rows.bytes == whole.bytes[2048..4096]);
    assert_eq!(requests(), [32 << 10, 2 * 144, 6 * 144]);
}

#[test]
fn an_onnx_model_is_listed_by_a_request_for_each_file() {
    let at = [("location", "w.bin"), ("offset", "65536")];
    let own = protobuf::tensor("own", 2, &[1 << 20]).bytes(9, vec![7; 1 << 20]);
    let far = protobuf::external("far", 2, &[4, 1 << 16], &at);
    let file = protobuf::model(&[], std::slice::from_ref(&far));
    let weights: Vec<u8> = (0..5 << 16)
        .map(|number: u32| number.to_le_bytes()[2])
        .collect();
    let large = protobuf::model(
        &[],
        &vec![own; 10]
            .into_iter()
            .zip(0..)
            .map(|(own, number)| own.bytes(8, number.to_string()))
            .collect::<Vec<_>>(),
    );
    let served = serve(&[
        ("m.onnx", &file),
        ("w.bin", &weights),
        ("large.onnx", &large),
    ]);
    let requests = || -> Vec<u64> {
        let log = served.log.lock().unwrap();
        assert!(log.iter().all(|served| served.status == 206));
        log.iter().map(|served| served.body_bytes).collect()
    };
    let reader = served.open("m.onnx");
    assert_eq!(reader.names().collect::<Vec<_>>(), ["far"]);
    assert_eq!(requests(), [file.len() as u64, 32 << 10]);
    let rows = reader.read_rows("far", 1..3).unwrap();
    assert_eq!(requests()[2..], [2 << 16]);
    assert!(rows.bytes == weights[2 << 16..4 << 16]);
    // Long values are not fetched to list a model.
    let before = requests().len();
    let reader = served.open("large.onnx");
    assert_eq!(reader.names().count(), 10);
    let listing = requests()[before..].to_vec();
    assert!(
        listing.len() <= 12 && listing.iter().sum::<u64>() <= 12 << 15,
        "{listing:?}"
    );
    assert!(
        reader
            .read("7")
            .unwrap()
            .bytes
            .iter()
            .all(|byte| *byte == 7)
    );
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

const SHARDS: usize = 100;

/// Packs a file with a tensor of `len` bytes, much longer than the first range that a
/// reader requests.
fn packed(engine: &Engine, name: &str, tensor: &[u8]) -> Vec<u8> {
    let plain = checkpoint(&[(name, "BF16", tensor)]);
    pack(engine, &plain, Effort::Fast).unwrap()
}

#[test]
fn a_hundred_shards_take_three_round_trips() {
    let engine = Engine::new(2).unwrap();
    let mut rng = Rng(11);
    let tensors: Vec<_> = (0..SHARDS).map(|_| rng.bf16_weights(60_000)).collect();
    let server = RoundServer::start();
    let mut weights = Vec::new();
    for (number, tensor) in tensors.iter().enumerate() {
        let file = format!("model-{:05}-of-{SHARDS:05}.zstn", number + 1);
        let name = format!("w.{number}");
        server.add(&file, Page::File(packed(&engine, &name, tensor)));
        weights.push(format!("\"{name}\":\"{file}\""));
    }
    let index = format!("{{\"weight_map\":{{{}}}}}", weights.join(","));
    let url = server.add("model.zstn.index.json", Page::File(index.into_bytes()));

    server.expect_rounds(&[1, SHARDS, SHARDS]);
    let options = Reader::options().engine(&engine);
    let reader = options.open(Location::url(url)).unwrap();
    assert_eq!(server.finished_rounds().len(), 1 + 2 * SHARDS);
    assert_eq!(reader.tensors().len(), SHARDS);

    server.expect_rounds(&[1]);
    assert!(reader.read("w.42").unwrap().bytes == tensors[42]);
    assert_eq!(server.finished_rounds().len(), 1);
}

#[test]
fn a_missing_shard_is_named() {
    let engine = Engine::new(1).unwrap();
    let weights = Rng(12).bf16_weights(1000);
    let index = r#"{"weight_map":{"a":"a.zstn","b":"b.zstn","c":"c.zstn"}}"#;
    let server = RoundServer::start();
    let url = server.add("m.zstn.index.json", Page::File(index.into()));
    server.add("a.zstn", Page::File(packed(&engine, "a", &weights)));
    server.add("c.zstn", Page::File(packed(&engine, "c", &weights)));
    let error = Reader::open(Location::url(url)).err().unwrap().to_string();
    assert!(
        error.contains("/b.zstn: the server answered 404"),
        "{error}"
    );
}

#[test]
fn a_delta_and_its_base_take_the_round_trips_of_one_file() {
    let engine = Engine::new(2).unwrap();
    let weights = Rng(13).bf16_weights(200_000);
    let plain = checkpoint(&[("w", "BF16", &weights)]);
    let mut tuned = weights.clone();
    for (byte, other) in tuned.iter_mut().step_by(3).zip(Rng(14).bytes(200_000)) {
        *byte ^= other & 3;
    }
    let base = model_delta::Base::parse(&plain).unwrap();
    let tuned_file = checkpoint(&[("w", "BF16", &tuned)]);
    let delta = model_delta::pack(&engine, &tuned_file, &base, Effort::Fast).unwrap();
    let server = RoundServer::start();
    let base = server.add("m.zstn", Page::File(packed(&engine, "w", &weights)));
    let delta = server.add("t.z4dm", Page::File(delta));

    server.expect_rounds(&[2, 2]);
    let options = Reader::options().engine(&engine).base(Location::url(base));
    let reader = options.open(Location::url(delta)).unwrap();
    assert_eq!(server.finished_rounds().len(), 4);

    server.expect_rounds(&[2]);
    assert!(reader.read("w").unwrap().bytes == tuned);
    assert_eq!(server.finished_rounds().len(), 2);
}

/// Serves shards with the extension `extension` and their index.
fn serve_shards(shards: &[Vec<u8>], extension: &str) -> (RoundServer, Location) {
    let server = RoundServer::start();
    let mut weights = Vec::new();
    for (number, shard) in shards.iter().enumerate() {
        let file = format!("m-{number}.{extension}");
        server.add(&file, Page::File(shard.clone()));
        weights.push(format!("\"w.{number}\":\"{file}\""));
    }
    let index = format!("{{\"weight_map\":{{{}}}}}", weights.join(","));
    let name = format!("m.{extension}.index.json");
    let url = server.add(&name, Page::File(index.into_bytes()));
    (server, Location::url(url))
}

#[test]
fn work_on_shards_looks_into_all_of_them_at_once() {
    // More files than are open concurrently. The server waits for each round to
    // complete.
    const FEW: usize = 9;
    let engine = Engine::new(2).unwrap();
    let job = Job::new().engine(&engine);
    let mut rng = Rng(15);
    let tensors: Vec<_> = (0..FEW).map(|_| rng.bf16_weights(60_000)).collect();
    let tensors = tensors.iter().enumerate();
    let names = tensors.map(|(number, tensor)| (format!("w.{number}"), tensor));
    let (plain, packed): (Vec<_>, Vec<_>) = names
        .map(|(name, tensor)| {
            let plain = checkpoint(&[(&name, "BF16", tensor)]);
            (plain, packed(&engine, &name, tensor))
        })
        .unzip();
    let (plain, plain_index) = serve_shards(&plain, "safetensors");
    let (packed, packed_index) = serve_shards(&packed, "zstn");
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);

    // The rounds are the index, `config.json`, the heads of all files, and, if the
    // heads do not suffice, the lists of tensors. Several files are then packed while they
    // arrive: each is opened again, and read.
    plain.expect_rounds(&[1, 1, FEW]);
    zstn::pack(&job, &plain_index, at("a"), &PackOptions::default()).unwrap();
    assert_eq!(plain.finished_rounds().len(), 2 + 3 * FEW);

    // Other work downloads four files at the same time.
    packed.expect_rounds(&[1, 1, FEW, FEW, 4]);
    zstn::unpack(&job, &packed_index, at("b"), &UnpackOptions::default()).unwrap();
    assert_eq!(packed.finished_rounds().len(), 2 + 3 * FEW);

    packed.expect_rounds(&[1, 1, FEW, FEW, 4]);
    zstn::verify(&job, &packed_index, &VerifyOptions::default()).unwrap();
    assert_eq!(packed.finished_rounds().len(), 2 + 3 * FEW);

    // The indices of the two bases in a chain are requested concurrently.
    plain.expect_rounds(&[]);
    packed.expect_rounds(&[2]);
    let options = PackOptions::default()
        .base(&packed_index)
        .base(&packed_index);
    let refused = zstn::pack(&job, &plain_index, at("c"), &options);
    assert!(refused.is_err(), "a container takes no base");
    assert!(packed.finished_rounds().len() > 2);
}

#[test]
fn a_pytorch_file_is_listed_by_three_requests_in_two_round_trips() {
    // The pickle does not fit in the first request.
    let names: Vec<String> = (0..400).map(|i| format!("layers.{i}.weight")).collect();
    let tensors = names.iter().zip(0..);
    let tensors: Vec<_> = tensors
        .map(|(name, i)| (name.clone(), i.to_string(), 1000))
        .collect();
    let mut archive = Archive::default().aligned("m/data.pkl", &state_dict(&tensors));
    for i in 0..400u32 {
        let values: Vec<u8> = (i..i + 1000)
            .flat_map(|i| (i as f32).to_le_bytes())
            .collect();
        archive = archive.aligned(&format!("m/data/{i}"), &values);
    }
    let file = archive.finish();
    let served = serve(&[("m.pt", &file)]);
    let reader = served.open("m.pt");
    let requests = || -> Vec<u64> {
        let log = served.log.lock().unwrap();
        assert!(log.iter().all(|served| served.status == 206));
        log.iter().map(|served| served.body_bytes).collect()
    };
    assert_eq!(reader.names().count(), 400);
    let opened = requests();
    assert_eq!((opened[0], opened.len()), (32 << 10, 3), "{opened:?}");
    assert!(opened.iter().sum::<u64>() <= 192 << 10, "{opened:?}");
    let rows = reader.read_rows("layers.9.weight", 3..5).unwrap();
    assert_eq!(rows.bytes, [12f32, 13.].map(f32::to_le_bytes).concat());
    assert_eq!(requests()[3..], [8]);
    let whole = reader.read("layers.9.weight").unwrap();
    assert_eq!(requests()[3..], [8, 4000]);
    assert!(whole.bytes.starts_with(&9f32.to_le_bytes()) && whole.bytes.len() == 4000);

    // The beginnings of arrays are fetched together where they are close.
    let array = |len: usize| {
        let dict = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({len},), }}\n");
        let header = [
            b"\x93NUMPY\x01\x00",
            &[u8::try_from(dict.len()).unwrap(), 0][..],
        ]
        .concat();
        [&header, dict.as_bytes(), &vec![0; 4 * len]].concat()
    };
    let mut archive = Archive::default();
    for (i, len) in [10, 10, 50_000, 10, 50_000, 10].into_iter().enumerate() {
        archive = archive.member(&format!("{i}.npy"), &array(len));
    }
    let served = serve(&[("m.npz", &archive.finish())]);
    assert_eq!(served.open("m.npz").names().count(), 6);
    let log = served.log.lock().unwrap();
    let bytes: u64 = log.iter().map(|served| served.body_bytes).sum();
    assert!(log.len() <= 4 && bytes < 80 << 10, "{bytes} bytes: {log:?}");
}
