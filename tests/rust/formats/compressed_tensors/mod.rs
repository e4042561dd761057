//! compressed-tensors: files made by the real package, damaged files, and files written
//! by zstn.

mod edges;
mod folder;
mod sparse;

use std::collections::BTreeSet;

use zstn_core::container::foreign::compressed_tensors::CheckpointEntry;
use zstn_tests::cases::{read, text};
use zstn_tests::compressed_model::{BAD, GOOD, Model, cases, safetensors};
use zstn_tests::refusal::Refusal;
use zstn_tests::sha256;

#[test]
fn every_vector_decodes_to_the_truth_beside_it() {
    for case in cases(GOOD) {
        let model = Model::vector(GOOD, &case.name);
        let truth = safetensors(&read(GOOD, &format!("{}.dense.safetensors", case.name)));
        let mut names = BTreeSet::new();
        for (stored, bytes) in truth {
            let name = &stored.name;
            let dense = model
                .read(name)
                .unwrap_or_else(|error| panic!("{}: {error}", case.name));
            assert!(dense.bytes == bytes, "{}: {name} differs", case.name);
            let expected = &case.tensors[name];
            assert_eq!(dense.dtype.name(), expected.dtype, "{}: {name}", case.name);
            assert_eq!(dense.shape, expected.shape, "{}: {name}", case.name);
            assert_eq!(sha256(&dense.bytes), expected.sha256);
            names.insert(stored.name);
        }
        assert!(!model.weights().is_empty(), "{}", case.name);
        for (name, entry) in model.checkpoint().expect("a checkpoint").entries() {
            match entry {
                CheckpointEntry::Weight(weight) => {
                    assert!(names.contains(name), "{}: {name}", case.name);
                    let format = case.format.as_deref().expect("a format");
                    let own = weight.format().name();
                    assert!(format.contains(own) || format == "mixed-precision", "{own}");
                }
                CheckpointEntry::Stored(_) => {
                    // Stored entries are weights and the scales of activations.
                    assert!(
                        names.contains(name) || name.ends_with(".input_scale"),
                        "{name}"
                    );
                }
                other => panic!("{}: {name} is {other:?}", case.name),
            }
        }
    }
}

#[test]
fn every_bad_vector_is_refused_for_its_rule() {
    for entry in zstn_tests::cases::malformed(BAD) {
        let name = text(&entry["name"]);
        let refusal = Refusal::of(&entry).expect(&name);
        let model = Model::vector(BAD, &name);
        let modules = match entry["bad_tensor"].as_str() {
            Some(module) => vec![module.to_owned()],
            None => (0..2).map(|n| format!("model.layers.{n}.proj")).collect(),
        };
        for module in modules {
            let weight = format!("{module}.weight");
            let error = refusal.check(&name, model.read(&weight));
            assert_eq!(error.tensor_name(), Some(weight.as_str()));
        }
    }
}

#[test]
fn one_bad_tensor_is_no_obstacle_to_the_others() {
    let model = Model::vector(BAD, "sb_no_bitmask");
    let good = Model::vector(GOOD, "sb013_f32");
    let name = "layers.1.proj.weight";
    assert_eq!(model.read(name), good.read(name));
}
