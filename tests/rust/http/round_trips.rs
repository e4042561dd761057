//! Shards and bases of deltas are opened and read in the round trips of one file.

use zstn::{Engine, Job, Location, PackOptions, Reader, UnpackOptions, VerifyOptions};
use zstn_core::container::model_delta;
use zstn_core::container::zstn::pack;
use zstn_core::frame::select::Effort;
use zstn_tests::checkpoint;
use zstn_tests::rng::Rng;
use zstn_tests::round_server::{Page, RoundServer};

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

    // The indices of two bases are requested concurrently.
    plain.expect_rounds(&[]);
    packed.expect_rounds(&[2]);
    let options = PackOptions::default()
        .base(&packed_index)
        .base(&packed_index);
    zstn::pack(&job, &plain_index, at("c"), &options).unwrap();
    assert!(packed.finished_rounds().len() > 2);
}
