//! Reading over HTTP takes few requests, and fetches few bytes that are not needed.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use zstn::{Engine, Location, Progress, Reader};
use zstn_core::container::model_delta;
use zstn_core::container::zstn::pack;
use zstn_core::frame::select::Effort;
use zstn_serve::{Served, Server};
use zstn_tests::archives::{Archive, state_dict};
use zstn_tests::cases;
use zstn_tests::protobuf;
use zstn_tests::rng::Rng;
use zstn_tests::{with_header, ztensor2};

/// Returns a checkpoint of 40 tensors of 1.5 MB and its packed file.
pub(super) fn model() -> (Vec<u8>, Vec<u8>) {
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
