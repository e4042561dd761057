//! Decodes every tensor of a checkpoint in two files with both engines. The index also
//! serves as `config.json`, so that a weight may have parts in both files.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zstn_core::container::safetensors::ShardIndex;
use zstn_core::model::Model;
use zstn_fuzz::{model_of, pair, read, speak, with_and_without_checksums};

fuzz_target!(|input: &[u8]| {
    let Some((json, rest)) = pair(input) else {
        return;
    };
    let Some((first, second)) = pair(rest) else {
        return;
    };
    let index = match ShardIndex::parse(json) {
        Ok(index) => index,
        Err(error) => return speak(&error),
    };
    let files = [first, second];
    with_and_without_checksums(|checksums_count| {
        for config in [None, Some(json)] {
            match model_of(&files, Some(&index), config) {
                Ok(model) => {
                    check(&model, &index);
                    read(&model, &files, checksums_count);
                }
                Err(error) => speak(&error),
            }
        }
    });
});
zstn_fuzz::keep_lengths!();

/// Checks the statements of the index about a model (docs/formats/sharded.md 2).
fn check(model: &Model, index: &ShardIndex) {
    for (name, file) in index.weights() {
        // If there is a config, a quantised weight is listed instead of its parts.
        match model.find(name).map(|number| &model.tensors()[number]) {
            Ok(tensor) if tensor.weight().is_none() => assert_eq!(tensor.parts[0].file, file),
            Ok(_) => {}
            // A tensor that is missing from its file is refused when it is read.
            Err(_) => {}
        }
    }
    for (key, value) in model.metadata() {
        let mut files = model.files().iter();
        let first = files.find_map(|file| file.metadata().get(key));
        assert_eq!(first, Some(value));
    }
}
