//! Deltas as bases, and the limit on the length of their chains.

use zstn::{Reader, UnpackOptions};
use zstn_core::frame::Edition;

use super::*;

/// Creates a family with a full base and `count` generations, each packed against the
/// previous one, with sketches. Returns the weights of the last generation.
fn generations(folder: &Folder, count: usize) -> Weights {
    far_generations(folder, count, 0.02)
}

/// Creates generations that differ by `size`, relative to the weights.
fn far_generations(folder: &Folder, count: usize, size: f64) -> Weights {
    let mut weights = Weights::new(1);
    folder.write("models/0.safetensors", &weights.file("BF16"));
    let mut chain = vec!["models/0.safetensors".to_owned()];
    folder.sketch(&chain[0], &[]);
    for number in 1..=count {
        weights = weights.tuned(number as u64 + 1, 1.0, size);
        folder.write("w.safetensors", &weights.file("BF16"));
        let options = chain
            .iter()
            .rev()
            .fold(PackOptions::default(), |options, base| {
                options.base(folder.at(base))
            });
        let name = format!("models/{number}.z4dm");
        zstn::pack(
            &job(),
            folder.at("w.safetensors"),
            folder.at(&name),
            &options,
        )
        .unwrap();
        let bases: Vec<&str> = chain.iter().rev().map(String::as_str).collect();
        folder.sketch(&name, &bases);
        chain.push(name);
    }
    weights
}

#[test]
fn a_difference_is_a_base_with_its_own_base() {
    let folder = Folder::new();
    let last = generations(&folder, 2);
    let next = last.tuned(77, 0.05, 0.002);
    folder.write("new.safetensors", &next.file("BF16"));
    let choice = folder.choose("new.safetensors");
    let base = choice.base.as_ref().unwrap();
    assert_eq!(base.name, "2.z4dm");
    let chain: Vec<String> = base
        .chain
        .iter()
        .filter_map(zstn::Location::file_name)
        .collect();
    assert_eq!(chain, ["2.z4dm", "1.z4dm", "0.safetensors"]);
    folder.pack("new.safetensors", "new.z4dm", &choice);
    let options = base
        .chain
        .iter()
        .fold(UnpackOptions::default(), |o, base| o.base(base));
    zstn::unpack(&job(), folder.at("new.z4dm"), folder.at("back"), &options).unwrap();
    assert!(std::fs::read(folder.at("back")).unwrap() == next.file("BF16"));
    // The sketch of the full base provides its digest. Without it, the base of the
    // first delta has to be digested.
    std::fs::remove_file(folder.at("models/0.sketch")).unwrap();
    let again = folder.choose("new.safetensors");
    assert_eq!(base_of(&again), Some("2.z4dm"), "it is digested on the way");
    std::fs::remove_file(folder.at("models/1.sketch")).unwrap();
    let broken = folder.choose("new.safetensors");
    assert_eq!(base_of(&broken), Some("0.safetensors"));
    let reason = &broken
        .left_out
        .iter()
        .find(|(name, _)| name == "2.z4dm")
        .unwrap()
        .1;
    assert!(reason.contains("not in the family"), "{reason}");
}

#[test]
fn full_bases_are_preferred() {
    let folder = Folder::new();
    let last = generations(&folder, 1);
    folder.write("models/full.safetensors", &last.file("BF16"));
    folder.write("new.safetensors", &last.tuned(77, 0.05, 0.002).file("BF16"));
    assert_eq!(
        base_of(&folder.choose("new.safetensors")),
        Some("full.safetensors")
    );
}

#[test]
fn chains_end_at_the_limit() {
    let folder = Folder::new();
    let last = generations(&folder, 4);
    folder.write("new.safetensors", &last.tuned(77, 0.05, 0.002).file("BF16"));
    let choice = folder.choose("new.safetensors");
    // The fourth generation already needs four bases, so it cannot be a base itself.
    assert_eq!(base_of(&choice), Some("3.z4dm"));
    let reason = &choice
        .left_out
        .iter()
        .find(|(name, _)| name == "4.z4dm")
        .unwrap()
        .1;
    assert!(reason.contains("a chain of 4 files"), "{reason}");
    let chain = ["4.z4dm", "3.z4dm", "2.z4dm", "1.z4dm", "0.safetensors"];
    let chain = chain.map(|name| folder.at(&format!("models/{name}")));
    let said = |result: zstn::Result<()>| result.unwrap_err().to_string();
    let options = chain
        .iter()
        .fold(PackOptions::default(), |o, base| o.base(base));
    let packed = zstn::pack(
        &job(),
        folder.at("new.safetensors"),
        folder.at("x"),
        &options,
    );
    let options = chain
        .iter()
        .fold(UnpackOptions::default(), |o, base| o.base(base));
    let unpacked = zstn::unpack(&job(), &chain[0], folder.at("x"), &options);
    let options = chain.iter().fold(Reader::options(), |o, base| o.base(base));
    let opened = options.open(&chain[0]);
    for refusal in [
        said(packed.map(drop)),
        said(unpacked.map(drop)),
        said(opened.map(drop)),
    ] {
        assert!(
            refusal.contains("5 bases is over the limit of 4"),
            "{refusal}"
        );
        assert!(refusal.contains("1.z4dm"), "{refusal}");
    }
    // A chain of four bases can be read.
    let options = chain[1..]
        .iter()
        .fold(Reader::options(), |o, base| o.base(base));
    let reader = options.open(&chain[0]).unwrap();
    assert_eq!(reader.read("layer.2.weight").unwrap().bytes.len(), 600);
    // Attaching the bases one by one works as well, up to the same limit.
    let plain = Reader::open(&chain[4]).unwrap();
    let long = chain[..4]
        .iter()
        .rev()
        .try_fold(plain, |base, delta| Reader::open(delta)?.with_base(base));
    let reader = long.unwrap();
    let more = Reader::open(&chain[0]).unwrap().with_base(reader);
    assert!(said(more.map(drop)).contains("over the limit of 4"));
}

#[test]
fn a_difference_that_saves_enough_is_taken() {
    let folder = Folder::new();
    let last = far_generations(&folder, 1, 0.5);
    let plain_limit = 100 - family::MIN_SAVING_PERCENT;
    // The delta saves slightly more than the minimum, and the full base saves less.
    let is_between = |step: &i32| {
        let next = last.tuned(77, 1.0, 0.01 * f64::from(*step));
        folder.write("new.safetensors", &next.file("BF16"));
        let target = sketch_of(&folder.at("new.safetensors"));
        let limit = target.estimate_plain().packed_bytes * plain_limit;
        let file = std::fs::read(folder.at("models/1.sketch")).unwrap();
        let base = Sketch::parse(&engine(), &file).unwrap();
        let delta = target.estimate_delta(&base, Edition::Plain).packed_bytes;
        let full = sketch_of(&folder.at("models/0.safetensors"));
        let full = target.estimate_delta(&full, Edition::Plain).packed_bytes;
        delta * 100 <= limit && delta * 107 > limit && full * 100 > limit
    };
    assert!((1..60).any(|step| is_between(&step)));
    assert_eq!(base_of(&folder.choose("new.safetensors")), Some("1.z4dm"));
}

#[test]
fn a_delta_from_a_base_in_another_dtype_is_a_base() {
    let folder = Folder::new();
    let weights = Weights::new(1);
    folder.write("models/brain.safetensors", &weights.file("BF16"));
    folder.write("half.safetensors", &weights.file("F16"));
    let extended = FamilyOptions::default().extended(true);
    let pack = |input: &str, output: &str, choice: &BaseChoice| {
        let options = choice.add_to(PackOptions::default().extended(true));
        let report = zstn::pack(&job(), folder.at(input), folder.at(output), &options);
        report.unwrap().packed_bytes()
    };
    let choice = folder.choose_with("half.safetensors", &extended).unwrap();
    assert_eq!(base_of(&choice), Some("brain.safetensors"));
    pack("half.safetensors", "models/half.z4dm", &choice);
    folder.sketch("models/half.z4dm", &["models/brain.safetensors"]);
    let tuned = weights.tuned(2, 0.02, 0.01);
    folder.write("new.safetensors", &tuned.file("F16"));
    let choice = folder.choose_with("new.safetensors", &extended).unwrap();
    assert_eq!(base_of(&choice), Some("half.z4dm"), "{:?}", choice.left_out);
    assert_eq!(choice.base.as_ref().unwrap().chain.len(), 2);
    let packed = pack("new.safetensors", "new.z4dm", &choice);
    assert!(packed < choice.plain.packed_bytes / 4, "{packed}");
}
