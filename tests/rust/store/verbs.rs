//! The command line on object stores, and the messages that a user reads.

use std::fs;

use crate::bucket::{Bucket, Kind};
use crate::machine::Machine;

pub fn every_verb_reads_and_writes(bucket: &Bucket) {
    let machine = Machine::new(bucket);
    let original = zstn_tests::many_kinds(3 << 20);
    bucket.put("a/m.safetensors", &original);
    let local = machine.path().join("m.zstn");
    fs::write(machine.path().join("m.safetensors"), &original).unwrap();
    machine.done(&["pack", "m.safetensors"]);
    // Packing in the store gives the same bytes as packing on disk.
    machine.done(&["pack", "at:a/m.safetensors", "-o", "at:a/m.zstn"]);
    assert!(machine.read("a/m.zstn") == fs::read(&local).unwrap());
    let listed = machine.done(&["ls", "at:a/m.zstn"]);
    assert_eq!(listed.stdout, machine.done(&["ls", "m.zstn"]).stdout);
    let rows = ["--rows", "100..200"];
    let get = |model| machine.done(&[&["get", model, "sparse"][..], &rows].concat());
    assert_eq!(get("at:a/m.zstn").stdout, get("m.zstn").stdout);
    machine.done(&["get", "at:a/m.zstn", "odd", "-o", "at:a/odd.npy"]);
    machine.done(&["get", "m.zstn", "odd", "-o", "odd.npy"]);
    assert!(machine.read("a/odd.npy") == fs::read(machine.path().join("odd.npy")).unwrap());
    let against = ["--against", "at:a/m.safetensors"];
    machine.done(&[&["verify", "at:a/m.zstn"][..], &against].concat());
    machine.done(&["unpack", "at:a/m.zstn", "-o", "at:a/back.safetensors"]);
    assert!(machine.read("a/back.safetensors") == original);
    machine.done(&["convert", "at:a/m.zstn", "at:a/m.zt"]);
    machine.done(&["convert", "m.zstn", "m.zt"]);
    assert!(machine.read("a/m.zt") == fs::read(machine.path().join("m.zt")).unwrap());
    machine.done(&["compress", "at:a/odd.npy", "-o", "at:a/odd.z4ai"]);
    machine.done(&["decompress", "at:a/odd.z4ai", "-o", "at:a/odd.again"]);
    assert!(machine.read("a/odd.again") == machine.read("a/odd.npy"));
    // Deltas, with the base in the store.
    let mut tuned = original;
    let last = tuned.len() - 1;
    tuned[last] ^= 1;
    bucket.put("a/tuned.safetensors", &tuned);
    let base = ["--base", "at:a/m.zstn"];
    machine.done(
        &[
            &["pack", "at:a/tuned.safetensors", "-o", "at:a/tuned.z4dm"][..],
            &base,
        ]
        .concat(),
    );
    machine.done(
        &[
            &["unpack", "at:a/tuned.z4dm", "-o", "at:a/tuned.again"][..],
            &base,
        ]
        .concat(),
    );
    assert!(machine.read("a/tuned.again") == tuned);
}

pub fn folders_come_with_their_index_last(bucket: &Bucket) {
    let machine = Machine::new(bucket);
    bucket.put("m.safetensors", &zstn_tests::many_kinds(3 << 20));
    let index = "at:plain/model.safetensors.index.json";
    machine.done(&["convert", "at:m.safetensors", index, "--shard-size", "1M"]);
    bucket.put("plain/config.json", b"{}");
    let names = machine.names("plain");
    assert!(names.len() > 4, "{names:?}");
    // Pack by the folder and by the index.
    machine.done(&["pack", "at:plain/", "-o", "at:packed/"]);
    machine.done(&["pack", index, "-o", "at:same"]);
    let packed = machine.names("packed");
    assert_eq!(packed.len(), names.len());
    assert_eq!(packed, machine.names("same"));
    machine.done(&["verify", "at:packed/", "--against", "at:plain/"]);
    machine.done(&["unpack", "at:packed/", "-o", "at:back/"]);
    for name in &names {
        let read = |folder: &str| machine.read(&format!("{folder}/{name}"));
        assert!(read("back") == read("plain"), "{name}");
    }
    // A folder that is not empty is never replaced, with or without an index.
    let refused = |output: &str, found: &str| {
        let refusal = machine.refusal(&["pack", "at:plain/", "-o", output]);
        assert!(refusal.contains("not empty"), "{refusal}");
        assert!(refusal.contains(found), "{refusal}");
    };
    refused("at:packed/", "config.json");
    bucket.put("half/config.json", b"somebody else's");
    refused("at:half/", "config.json");
    assert!(machine.read("half/config.json") == b"somebody else's");
    // An input that is refused after part of the work leaves no objects.
    let damaged = names
        .iter()
        .rfind(|name| name.ends_with(".safetensors"))
        .unwrap();
    let shard = machine.read(&format!("plain/{damaged}"));
    bucket.put(&format!("plain/{damaged}"), &shard[..shard.len() - 1]);
    machine.refusal(&["pack", "at:plain/", "-o", "at:none/"]);
    assert_eq!(machine.names("none"), [""; 0]);
}

pub fn refusals_are_one_sentence(bucket: &Bucket) {
    let machine = Machine::new(bucket);
    bucket.put("m.safetensors", &zstn_tests::many_kinds(1 << 20));
    let refused = |arguments: &[&str], sentence: &str| {
        assert_eq!(
            machine.refusal(arguments),
            format!("error: {sentence}"),
            "{arguments:?}"
        );
    };
    refused(
        &["ls", "at:nothing.zstn"],
        "at:nothing.zstn: there is no such object; check the address",
    );
    machine.done(&["pack", "at:m.safetensors", "-o", "at:m.zstn"]);
    refused(
        &["pack", "at:m.safetensors", "-o", "at:m.zstn"],
        "at:m.zstn exists already; use --force to replace it, or choose another name",
    );
    machine.done(&["pack", "at:m.safetensors", "-fo", "at:m.zstn"]);
    refused(
        &["pack", "at:m.safetensors", "-fo", "at:m.safetensors"],
        "at:m.safetensors is being read; write under another name",
    );
    // The refusal does not depend on the spelling of the address or on the command.
    if bucket.kind == Kind::S3 {
        let address = machine.address("at:m.zstn").replacen("s3:", "S3A:", 1);
        for verb in ["unpack", "convert"] {
            let refusal = machine.refusal(
                &[verb, "at:m.zstn", "-fo", &address, "--to", "zstn"]
                    [..if verb == "unpack" { 4 } else { 6 }],
            );
            assert!(refusal.contains("is being read"), "{refusal}");
        }
    }
    let nobody = Bucket {
        environment: Vec::new(),
        ..Bucket::existing(bucket.kind, &bucket.name, &bucket.server)
    };
    let nobody = Machine::new(&nobody);
    let refusal = nobody.refusal(&["ls", "at:m.zstn"]);
    assert!(
        refusal.contains("at:m.zstn: there are no credentials for this store; set "),
        "{refusal}"
    );
    let elsewhere = bucket.with_name("no-such-bucket-anywhere");
    let elsewhere = Machine::new(&elsewhere);
    let refusal = elsewhere.refusal(&["pack", "at:m.safetensors"]);
    assert!(
        refusal.contains("there is no bucket or container `no-such-bucket-anywhere`"),
        "{refusal}"
    );
}
