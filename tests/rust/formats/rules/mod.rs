//! Every rule has an input that breaks it and is refused for it: a malformed file in
//! `tests/vectors`, whose manifest names the rule, or a case built here.

mod containers;
mod foreign;
mod frames;

use std::collections::BTreeSet;

use zstn_core::bytes::part;
use zstn_core::catalog::FileOpener;
use zstn_core::engine::Engine;
use zstn_core::pure::Pure;
use zstn_core::{Error, Result, Rule};
use zstn_tests::cases::{Refusal, malformed};

/// The folders of `tests/vectors` with malformed files. The tests of each format read
/// the files and compare the rule.
const FOLDERS: [&str; 16] = [
    "compressed-tensors-bad",
    "gauss-bad",
    "gguf-bad",
    "hdf5-bad",
    "keras-bad",
    "msgpack-bad",
    "npy-bad",
    "npz-bad",
    "onnx-bad",
    "pytorch-bad",
    "tar-bad",
    "tflite-bad",
    "z4ai-bad",
    "zstd-bad",
    "zstn-bad",
    "ztensor-bad",
];

/// A rule, and the result of reading an input that breaks only this rule.
type Case = (Rule, Result<()>);

fn cases(engine: &impl Engine) -> Vec<Case> {
    [
        containers::safetensors_files(engine),
        containers::sharded_checkpoints(),
        frames::sketches(engine),
        containers::zstn_files(engine),
        containers::deltas(engine),
        frames::difference_frames(engine),
        frames::standalone_frames(engine),
        frames::intervals(engine),
        frames::planes_and_streams(),
        foreign::ztensor_files(engine),
        foreign::gauss_files(engine),
        frames::low_rank_predictions(),
        foreign::compressed_tensors_models(),
    ]
    .concat()
}

/// Opens a file of any format and reads all of its tensors.
fn read_all(engine: &impl Engine, file: &[u8]) -> Result<()> {
    let opening = FileOpener::new(file.len() as u64, file.to_vec())?;
    let catalog = opening.finish(engine)?;
    for (number, tensor) in catalog.tensors().iter().enumerate() {
        catalog.decode(engine, number, part(file, tensor.stored.clone()))?;
    }
    Ok(())
}

fn are_refused_for_their_rule(engine: &impl Engine) {
    let others: Vec<String> = cases(engine)
        .into_iter()
        .filter(|(rule, result)| result.as_ref().err().map(Error::rule) != Some(Some(*rule)))
        .map(|(rule, result)| format!("{}: {result:?}", rule.code()))
        .collect();
    assert!(others.is_empty(), "{others:#?}");
}

#[test]
fn inputs_are_refused_for_the_rule_they_break_with_c_zstd() {
    are_refused_for_their_rule(&::zstn::Engine::new(2).expect("two threads"));
}

#[test]
fn inputs_are_refused_for_the_rule_they_break_with_rust_alone() {
    are_refused_for_their_rule(&Pure);
}

#[test]
fn every_rule_has_an_input_that_breaks_it() {
    let mut asserted = BTreeSet::new();
    for entry in FOLDERS.iter().flat_map(|folder| malformed(folder)) {
        let opened = entry.get("opened").and_then(Refusal::of);
        let refusals = [Refusal::of(&entry), opened];
        asserted.extend(refusals.into_iter().flatten().filter_map(|told| told.rule));
    }
    let cases = cases(&Pure).into_iter();
    asserted.extend(cases.map(|(rule, _)| rule.code().to_owned()));
    let rules: BTreeSet<String> = Rule::ALL.iter().map(|rule| rule.code().into()).collect();
    assert_eq!(rules.len(), Rule::ALL.len(), "two rules have one code");
    let left_out: Vec<_> = rules.difference(&asserted).collect();
    assert!(left_out.is_empty(), "no input breaks {left_out:?}");
    let unknown: Vec<_> = asserted.difference(&rules).collect();
    assert!(unknown.is_empty(), "there are no rules {unknown:?}");
}

#[test]
fn every_malformed_file_says_what_it_is_refused_for() {
    let vectors = zstn_tests::repository().join("tests/vectors");
    let folders = std::fs::read_dir(vectors).expect("the vectors");
    let names = folders.map(|folder| folder.expect("an entry").file_name());
    let names = names.filter_map(|name| name.into_string().ok());
    let bad: BTreeSet<String> = names.filter(|name| name.ends_with("-bad")).collect();
    assert!(bad.iter().eq(FOLDERS), "{bad:?}");
    for folder in FOLDERS {
        for entry in malformed(folder) {
            // The other files have damage that no reader can detect, or are accepted by
            // some readers.
            let is_refused = entry
                .get("verdict")
                .is_none_or(|verdict| verdict == "must_reject");
            let refusal = Refusal::of(&entry);
            assert_eq!(refusal.is_some(), is_refused, "{folder}: {entry}");
        }
    }
}
