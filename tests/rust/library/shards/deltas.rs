//! Shards as differences from those of a base.

use std::slice::from_ref;

use zstn::source::Place;
use zstn::{PackOptions, Shards, pack_shards, unpack_shards};

use super::*;

#[test]
fn deltas_go_shard_by_shard() {
    let (tuned, base) = (model(true), model(false));
    let (scratch, folder) = scratch(&tuned);
    let at = |name: &str| scratch.path().join(name);
    write(&at("base"), &base);
    let base = open(&at("base"), &["safetensors"]).unwrap();
    let input = open(&folder, &["safetensors"]).unwrap();
    let options = PackOptions::default();
    let report = pack_shards(&engine(), &input, from_ref(&base), &at("d"), &options).unwrap();
    assert!(report.packed_bytes() * 10 < report.original_bytes());
    assert_eq!(report.index.as_deref(), Some("model.z4dm.index.json"));
    let delta = open(&at("d"), &zstn::shards::PACKED).unwrap();
    unpack_shards(&engine(), &delta, from_ref(&base), &at("back"), &()).unwrap();
    assert!(read(&at("back")) == tuned);
    let verified =
        zstn::verify_shards(&engine(), &delta, from_ref(&base), Some(&input), &()).unwrap();
    assert_eq!((verified.shards.len(), verified.indexed_tensors), (3, 4));
    assert!(verified.shards.iter().all(|(_, report)| report.compared));

    let refused = |bases: &[Shards], sentence: &str| {
        let error = unpack_shards(&engine(), &delta, bases, &at("x"), &()).unwrap_err();
        assert!(error.to_string().contains(sentence), "{error}");
    };
    refused(&[], "name that one with --base");
    refused(from_ref(&input), "made against");
    // A base with other shards, with fewer, and with more.
    let one = Shards::of_file(Place::Path(at("base").join(FIRST)));
    refused(&[one], "no counterpart to model-00002-of-00003.z4dm");
    let mut more = model(false);
    let index = String::from_utf8(more[INDEX].clone()).unwrap();
    let index = index.replace("\"up\"", "\"more\": \"more.safetensors\",\n \"up\"");
    more.insert(INDEX.into(), index.into_bytes());
    write(&at("more"), &more);
    let more = open(&at("more"), &["safetensors"]).unwrap();
    refused(&[more], "has more.safetensors, for which");
    pack(&folder, &at("packed")).unwrap();
    let packed = open(&at("packed"), &zstn::shards::PACKED).unwrap();
    let error = unpack_shards(&engine(), &packed, from_ref(&base), &at("x"), &()).unwrap_err();
    assert!(error.to_string().contains("takes no base"), "{error}");
    assert!(!at("x").exists());
}

#[test]
fn packed_shards_and_deltas_are_bases() {
    let (tuned, plain) = (model(true), model(false));
    let (scratch, folder) = scratch(&tuned);
    let at = |name: &str| scratch.path().join(name);
    write(&at("plain"), &plain);
    pack(&at("plain"), &at("zstn")).unwrap();
    let bases = |names: &[&str]| -> Vec<Shards> {
        let kinds = &zstn::shards::BASES;
        names.iter().map(|n| open(&at(n), kinds).unwrap()).collect()
    };
    let input = open(&folder, &["safetensors"]).unwrap();
    let options = PackOptions::default();
    for base in ["plain", "zstn"] {
        let target = at(&format!("delta-{base}"));
        pack_shards(&engine(), &input, &bases(&[base]), &target, &options).unwrap();
    }
    assert!(read(&at("delta-plain")) == read(&at("delta-zstn")));
    // Back to the first generation, as a difference from the second.
    let first = open(&at("plain"), &["safetensors"]).unwrap();
    let chain = bases(&["delta-zstn", "zstn"]);
    pack_shards(&engine(), &first, &chain, &at("again"), &options).unwrap();
    let again = open(&at("again"), &zstn::shards::PACKED).unwrap();
    unpack_shards(&engine(), &again, &chain, &at("back"), &()).unwrap();
    assert!(read(&at("back")) == plain);
    let verified = zstn::verify_shards(&engine(), &again, &chain, Some(&first), &()).unwrap();
    assert!(verified.shards.iter().all(|(_, report)| report.compared));

    let refused = |names: &[&str], sentence: &str| {
        let error = unpack_shards(&engine(), &again, &bases(names), &at("x"), &()).unwrap_err();
        assert!(error.to_string().contains(sentence), "{error}");
        assert!(!at("x").exists());
    };
    refused(&["delta-zstn"], "itself a difference");
    refused(&["zstn"], "made against");
    refused(&["zstn", "plain"], "takes no base");
    let shard = at("zstn").join("model-00002-of-00003.zstn");
    let mut damaged = std::fs::read(&shard).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 4;
    std::fs::write(&shard, damaged).unwrap();
    refused(&["delta-zstn", "zstn"], "model-00002-of-00003.zstn");
}
