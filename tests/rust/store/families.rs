//! Families in object stores: their sketches are read there, and of the checkpoints
//! only the base.

use zstn::family::{self, FamilyOptions};
use zstn::{Engine, Job, Location, PackOptions};
use zstn_tests::checkpoint;
use zstn_tests::command::text;
use zstn_tests::rng::Rng;

use crate::bucket::Bucket;
use crate::machine::Machine;

/// Returns a base, a fine-tune of it, and an unrelated checkpoint.
fn checkpoints() -> [Vec<u8>; 3] {
    let base = Rng(1).bf16_weights(100_000);
    let mut tuned = base.clone();
    let mut rng = Rng(4);
    for byte in &mut tuned {
        *byte ^= u8::from(rng.unit() < 0.02);
    }
    let other = Rng(2).bf16_weights(100_000);
    [base, tuned, other].map(|weights| checkpoint(&[("w", "BF16", &weights)]))
}

#[test]
fn a_family_in_memory_is_compared_by_its_sketches() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let store = Bucket::memory();
    let [base, tuned, other] = checkpoints();
    let engine = Engine::new(2).unwrap();
    let job = Job::new().engine(&engine);
    for (name, file) in [("base", &base), ("other", &other), ("unsketched", &base)] {
        store.put(&format!("models/{name}.safetensors"), file);
        if name != "unsketched" {
            let input = zstn::Input::bytes(name, file.clone());
            let sketch = family::sketch(&job, input, &Default::default()).unwrap();
            store.put(&format!("models/{name}.sketch"), &sketch.to_bytes(&engine));
        }
    }
    store.put("models/deeper/base.safetensors", &base);
    std::fs::write(at("tuned.safetensors"), &tuned).unwrap();
    let family = Location::url(format!("{}/models/", store.address("").url()));
    let options = FamilyOptions::default();
    let choice = family::choose(&job, at("tuned.safetensors"), family, &options).unwrap();
    let found = choice.base.as_ref().unwrap();
    assert_eq!((&*found.name, choice.compared), ("base.safetensors", 2));
    assert_eq!(choice.left_out[0].0, "unsketched.safetensors");
    assert!(
        choice.left_out[0].1.contains("no sketch"),
        "{:?}",
        choice.left_out
    );
    let packing = choice.add_to(PackOptions::default());
    let report = zstn::pack(&job, at("tuned.safetensors"), at("tuned.z4dm"), &packing);
    assert!(report.unwrap().packed_bytes() < choice.plain.packed_bytes / 2);
}

pub fn a_base_is_found_in_a_bucket(bucket: &Bucket) {
    let machine = Machine::new(bucket);
    let [base, tuned, other] = checkpoints();
    bucket.put("models/base.safetensors", &base);
    bucket.put("models/other.safetensors", &other);
    bucket.put("tuned.safetensors", &tuned);
    machine.done(&[
        "pack",
        "at:models/other.safetensors",
        "-o",
        "at:models/other.zstn",
    ]);
    for (input, sketch) in [("base.safetensors", "base"), ("other.zstn", "other")] {
        let (input, sketch) = (
            format!("at:models/{input}"),
            format!("at:models/{sketch}.sketch"),
        );
        machine.done(&["sketch", &input, "-o", &sketch]);
    }
    let line = [
        "pack",
        "at:tuned.safetensors",
        "-o",
        "at:tuned.z4dm",
        "--base",
        "auto",
    ];
    let packed = machine.done(&[&line[..], &["--family", "at:models/"]].concat());
    let said = text(&packed.stderr);
    assert!(
        said.contains("models/base.safetensors; without a base"),
        "{said}"
    );
    let back = ["-o", "back", "--base", "at:models/base.safetensors"];
    machine.done(&[&["unpack", "at:tuned.z4dm"][..], &back].concat());
    assert!(std::fs::read(machine.path().join("back")).unwrap() == tuned);
    // Without the trailing slash, the address is not a folder.
    let refusal = machine.refusal(&[&line[..], &["--family", "at:models", "-f"]].concat());
    assert!(refusal.contains("ends in a slash"), "{refusal}");
}
