//! Round trips of opening a model and of reading a tensor of it.

use zstn::{Engine, Location, Reader};
use zstn_core::container::model_delta;
use zstn_core::container::zstn::pack;
use zstn_core::frame::select::Effort;
use zstn_tests::checkpoint;
use zstn_tests::rng::Rng;
use zstn_tests::round_server::{Page, RoundServer};

const SHARDS: usize = 100;

/// A packed file with a tensor of `len` bytes, which is far more than the head
/// of a file holds.
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
