//! `zstn worker` with a plan and a bucket for the results.

use serde_json::Value;
use zstn_tests::command::text;
use zstn_tests::plans::plan_of;
use zstn_tests::rng::Rng;
use zstn_tests::stub_hub::{Options, StubHub};
use zstn_tests::{checkpoint, sha256};

use crate::bucket::Bucket;
use crate::machine::Machine;

/// Runs a share of a plan, and returns the counts of packed, known and refused files in
/// the last line.
fn counts(machine: &Machine<'_>, hub: &StubHub, shard: &str) -> [u64; 3] {
    let out = machine
        .command(&[
            "worker",
            "--json",
            "--plan",
            "plan.jsonl",
            "--to",
            "at:packed-models",
        ])
        .args(["--shard", shard, "--endpoint", hub.url()])
        .output()
        .unwrap();
    let lines = text(&out.stdout);
    let last = lines.lines().last();
    let last = last.unwrap_or_else(|| panic!("{}", text(&out.stderr)));
    let summary: Value = serde_json::from_str(last).unwrap();
    ["packed", "known", "refused"].map(|name| summary[name].as_u64().unwrap())
}

pub fn a_plan_is_packed_into_a_bucket(bucket: &Bucket) {
    let machine = Machine::new(bucket);
    let hub = StubHub::start(Options::default()).unwrap();
    let file = |seed| checkpoint(&[("a", "BF16", &Rng(seed).bf16_weights(40_000))]);
    let (a, b) = (file(1), file(2));
    let files: [(&str, &[u8]); 4] = [
        ("a.safetensors", &a),
        ("again.safetensors", &a),
        ("b.safetensors", &b),
        ("bad.safetensors", b"bad"),
    ];
    let plan = plan_of(&hub, "me/model", &files, machine.path());
    assert!(plan.exists());
    let (one, two) = (counts(&machine, &hub, "0/2"), counts(&machine, &hub, "1/2"));
    assert_eq!((one[0] + two[0], one[2] + two[2]), (2, 1));

    let names = |folder: &str| -> Vec<String> {
        let address = bucket.address(&format!("packed-models/{folder}"));
        let listed = zstn_store::list(&address, &bucket.options()).unwrap();
        listed.iter().map(|object| object.path.clone()).collect()
    };
    assert_eq!(
        (
            names("done").len(),
            names("packed").len(),
            names("failed").len()
        ),
        (2, 2, 1)
    );
    for name in names("packed") {
        let from = format!("at:packed-models/packed/{name}");
        machine.done(&["unpack", &from, "-o", "back.safetensors", "--force"]);
        let back = std::fs::read(machine.path().join("back.safetensors")).unwrap();
        assert!([sha256(&a), sha256(&b)].contains(&sha256(&back)));
    }
    hub.clear_log();
    assert_eq!(counts(&machine, &hub, "0/1"), [0, 2, 1]);
    assert!(hub.log().is_empty());
}
