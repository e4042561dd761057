//! Shards packed as deltas from the shards of a base.

use std::path::PathBuf;

use zstn::{PackOptions, UnpackOptions, VerifyOptions};

use super::*;

#[test]
fn deltas_go_shard_by_shard() {
    let (tuned, base) = (model(true), model(false));
    let (scratch, input) = scratch(&tuned);
    let at = |name: &str| scratch.path().join(name);
    write(&at("base"), &base);
    let options = PackOptions::default().base(at("base"));
    let report = zstn::pack(&job(), &input, at("d"), &options).unwrap();
    assert!(report.packed_bytes() * 10 < report.original_bytes());
    let index = rest(report).index;
    assert_eq!(index.as_deref(), Some("model.z4dm.index.json"));
    let unpack_with = |packed: &str, bases: &[PathBuf], target: &str| {
        let options = UnpackOptions::default();
        let options = bases.iter().fold(options, |o, base| o.base(base));
        zstn::unpack(&job(), at(packed), at(target), &options)
    };
    unpack_with("d", &[at("base")], "back").unwrap();
    assert!(read(&at("back")) == tuned);
    let options = VerifyOptions::default().base(at("base")).original(&input);
    let verified = zstn::verify(&job(), at("d"), &options).unwrap();
    assert_eq!((verified.files.len(), verified.indexed_tensors), (3, 4));
    assert!(verified.compared);

    let refused = |bases: &[PathBuf], sentence: &str| {
        let error = unpack_with("d", bases, "x").unwrap_err();
        assert!(error.to_string().contains(sentence), "{error}");
    };
    refused(&[], "give that checkpoint as its base");
    refused(std::slice::from_ref(&input), "made against");
    // Bases with different shards, with fewer, and with more.
    let one = at("base").join(FIRST);
    refused(&[one], "no counterpart to model-00002-of-00003.z4dm");
    let mut more = model(false);
    let index = String::from_utf8(more[INDEX].clone()).unwrap();
    let index = index.replace("\"up\"", "\"more\": \"more.safetensors\",\n \"up\"");
    more.insert(INDEX.into(), index.into_bytes());
    write(&at("more"), &more);
    refused(&[at("more")], "has more.safetensors, for which");
    pack(&input, &at("packed")).unwrap();
    let error = unpack_with("packed", &[at("base")], "x").unwrap_err();
    assert!(error.to_string().contains("takes no base"), "{error}");
    // The base is a single file in memory.
    let options = UnpackOptions::default().base(base[FIRST].clone());
    let error = zstn::unpack(&job(), at("d"), at("x"), &options).unwrap_err();
    assert!(error.to_string().contains("in memory"), "{error}");
    assert!(!at("x").exists());
}

#[test]
fn packed_shards_and_deltas_are_bases() {
    let (tuned, plain) = (model(true), model(false));
    let (scratch, input) = scratch(&tuned);
    let at = |name: &str| scratch.path().join(name);
    write(&at("plain"), &plain);
    pack(&at("plain"), &at("zstn")).unwrap();
    for base in ["plain", "zstn"] {
        let target = at(&format!("delta-{base}"));
        let options = PackOptions::default().base(at(base));
        zstn::pack(&job(), &input, target, &options).unwrap();
    }
    assert!(read(&at("delta-plain")) == read(&at("delta-zstn")));
    // The first generation packed as a delta from the second.
    let chain = ["delta-zstn", "zstn"];
    let options = chain.iter();
    let options = options.fold(PackOptions::default(), |o, name| o.base(at(name)));
    zstn::pack(&job(), at("plain"), at("again"), &options).unwrap();
    let unpack_with = |bases: &[&str], target: &str| {
        let options = bases.iter();
        let options = options.fold(UnpackOptions::default(), |o, name| o.base(at(name)));
        zstn::unpack(&job(), at("again"), at(target), &options)
    };
    unpack_with(&chain, "back").unwrap();
    assert!(read(&at("back")) == plain);
    let options = VerifyOptions::default().original(at("plain"));
    let options = chain.iter().fold(options, |o, name| o.base(at(name)));
    let verified = zstn::verify(&job(), at("again"), &options).unwrap();
    assert!(verified.compared);

    let refused = |bases: &[&str], sentence: &str| {
        let error = unpack_with(bases, "x").unwrap_err();
        assert!(error.to_string().contains(sentence), "{error}");
        assert!(!at("x").exists());
    };
    refused(&["delta-zstn"], "give that checkpoint as its base");
    refused(&["zstn"], "made against");
    refused(&["zstn", "plain"], "takes no base");
    let shard = at("zstn").join("model-00002-of-00003.zstn");
    let mut damaged = std::fs::read(&shard).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 4;
    std::fs::write(&shard, damaged).unwrap();
    refused(&["delta-zstn", "zstn"], "model-00002-of-00003.zstn");
}
