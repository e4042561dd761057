//! Shards as differences from those of a base.

use zstn::source::Place;
use zstn::{PackOptions, Shards, pack_shards, unpack_shards};

use crate::*;

#[test]
fn deltas_go_shard_by_shard() {
    let (tuned, base) = (model(true), model(false));
    let (scratch, folder) = scratch(&tuned);
    let at = |name: &str| scratch.path().join(name);
    write(&at("base"), &base);
    let base = open(&at("base"), &["safetensors"]).unwrap();
    let input = open(&folder, &["safetensors"]).unwrap();
    let options = PackOptions::default();
    let report = pack_shards(&engine(), &input, Some(&base), &at("d"), &options).unwrap();
    assert!(report.packed_bytes() * 10 < report.original_bytes());
    assert_eq!(report.index.as_deref(), Some("model.z4dm.index.json"));
    let delta = open(&at("d"), &zstn::shards::PACKED).unwrap();
    unpack_shards(&engine(), &delta, Some(&base), &at("back"), &()).unwrap();
    assert!(read(&at("back")) == tuned);
    let verified = zstn::verify_shards(&engine(), &delta, Some(&base), Some(&input), &()).unwrap();
    assert_eq!((verified.shards.len(), verified.indexed_tensors), (3, 4));
    assert!(verified.shards.iter().all(|(_, report)| report.compared));

    let refused = |base: Option<&Shards>, sentence: &str| {
        let error = unpack_shards(&engine(), &delta, base, &at("x"), &()).unwrap_err();
        assert!(error.to_string().contains(sentence), "{error}");
    };
    refused(None, "name that one with --base");
    refused(Some(&input), "made against");
    // A base with other shards, with fewer, and with more.
    let one = Shards::of_file(Place::Path(at("base").join(FIRST)));
    refused(Some(&one), "no counterpart to model-00002-of-00003.z4dm");
    let mut more = model(false);
    let index = String::from_utf8(more[INDEX].clone()).unwrap();
    let index = index.replace("\"up\"", "\"more\": \"more.safetensors\",\n \"up\"");
    more.insert(INDEX.into(), index.into_bytes());
    write(&at("more"), &more);
    let more = open(&at("more"), &["safetensors"]).unwrap();
    refused(Some(&more), "has more.safetensors, for which");
    pack(&folder, &at("packed")).unwrap();
    let packed = open(&at("packed"), &zstn::shards::PACKED).unwrap();
    let error = unpack_shards(&engine(), &packed, Some(&base), &at("x"), &()).unwrap_err();
    assert!(error.to_string().contains("takes no base"), "{error}");
    assert!(!at("x").exists());
}
