//! Converts a file of any container to other formats: every tensor keeps its bytes, or
//! the conversion is refused.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zstn::convert::Target;
use zstn::{ConvertOptions, Effort, Job, Reader, Sink};
use zstn_fuzz::{LIMIT_BYTES, NATIVE};

fuzz_target!(|input: &[u8]| {
    let Some((&choice, file)) = input.split_first() else {
        return;
    };
    let open = |bytes: Vec<u8>| Reader::options().engine(&NATIVE).open(bytes);
    let Ok(before) = open(file.to_vec()) else {
        return;
    };
    let tensors = before.model().tensors();
    let len_bytes = tensors
        .iter()
        .map(|tensor| u128::from(tensor.len_bytes()))
        .sum::<u128>();
    if len_bytes > u128::from(LIMIT_BYTES) {
        return;
    }
    let target = match choice % 4 {
        0 => Target::Safetensors,
        1 => Target::Zstn {
            effort: Effort::Fast,
        },
        number => Target::ZTensor {
            is_zstd: number == 3,
            checksum: None,
        },
    };
    let mut converted = Vec::new();
    let sink = Sink::writer(&mut converted);
    let options = ConvertOptions::default();
    if let Err(error) = zstn::convert(&Job::new().engine(&NATIVE), file.to_vec(), sink, &target, &options) {
        assert!(!error.to_string().is_empty());
        return;
    }
    let after = open(converted).expect("our own file");
    assert_eq!(after.model().tensors().len(), tensors.len());
    for tensor in tensors {
        let read = |reader: &Reader| {
            reader
                .read(&tensor.name)
                .expect("a tensor of a checked file")
        };
        let (before, after) = (read(&before), read(&after));
        assert!(before.bytes == after.bytes, "{}", tensor.name);
        assert_eq!(before.shape, after.shape, "{}", tensor.name);
    }
});
zstn_fuzz::keep_lengths!();
