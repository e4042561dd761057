//! Opens a file of any container by ranges and as a whole: both list the same tensors
//! with the same bytes.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zstn::Reader;
use zstn_fuzz::{LIMIT_BYTES, NATIVE, model, parts, speak};

/// Number of tensors that are compared per file.
const TENSORS: usize = 4;

fuzz_target!(|file: &[u8]| {
    let pieces = model(file, None);
    let whole = Reader::options().engine(&NATIVE).open(file.to_vec());
    let (pieces, whole) = match (pieces, whole) {
        (Ok(pieces), Ok(whole)) => (pieces, whole),
        (Err(error), Err(_)) => return speak(&error),
        // A delta can only be read with its base.
        (Ok(_), Err(zstn::Error::NeedsBase { .. })) => return,
        (Ok(_), Err(error)) => panic!("only by pieces: {error}"),
        (Err(error), Ok(_)) => panic!("only as a whole: {error}"),
    };
    let [by_pieces, at_once] = [&pieces, whole.model()].map(|m| format!("{:?}", m.tensors()));
    assert_eq!(by_pieces, at_once);
    for (number, tensor) in pieces.tensors().iter().enumerate().take(TENSORS) {
        if tensor.len_bytes() > LIMIT_BYTES || tensor.base.is_some() {
            continue;
        }
        let parts = parts(tensor, &[file]);
        match (
            pieces.decode(&*NATIVE, number, &parts, None),
            whole.read(&tensor.name),
        ) {
            (Ok(bytes), Ok(read)) => assert!(*bytes == *read.bytes),
            (Err(error), Err(_)) => speak(&error),
            (by_pieces, whole) => panic!("{:?} and {:?}", by_pieces.err(), whole.err()),
        }
    }
});
zstn_fuzz::keep_lengths!();
