//! Compares some rows of a tensor with the whole tensor. The first bytes of the input
//! choose the rows, and the rest is a file of any container.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zstn_core::pure::Pure;
use zstn_fuzz::{LIMIT_BYTES, NATIVE, model, part, parts, speak};

fuzz_target!(|input: &[u8]| {
    let Some((choice, file)) = input.split_first_chunk::<5>() else {
        return;
    };
    let model = match model(file, None) {
        Ok(model) if !model.tensors().is_empty() => model,
        Ok(_) => return,
        Err(error) => return speak(&error),
    };
    let number = usize::from(choice[0]) % model.tensors().len();
    let tensor = &model.tensors()[number];
    if tensor.len_bytes() > LIMIT_BYTES || tensor.base.is_some() {
        return;
    }
    let count = tensor.shape.first().copied().unwrap_or(0);
    let at = |low, high| u64::from(u16::from_le_bytes([low, high])) % count.saturating_add(1);
    let (start, end) = (at(choice[1], choice[2]), at(choice[3], choice[4]));
    let table = model
        .block_table(number, &[])
        .map(|(_, range)| part(file, range));
    let planned = match model.rows(number, start..end, table) {
        Ok(planned) => planned,
        Err(error) => return speak(&error),
    };
    let whole = model.decode(&*NATIVE, number, &parts(tensor, &[file]), None);
    if planned.is_whole() {
        return;
    }
    let fetched = planned.ranges().map(|(_, range)| part(file, range));
    let fetched: Vec<&[u8]> = fetched.collect();
    let (by_c, by_rust) = (
        planned.decode(&*NATIVE, &fetched, None),
        planned.decode(&Pure, &fetched, None),
    );
    match (by_rust, whole) {
        (Ok(rows), Ok(whole)) => {
            assert!(rows == part(&whole, planned.span()));
            assert!(by_c.expect("C zstd accepts more") == rows);
        }
        (Err(error), _) | (_, Err(error)) => speak(&error),
    }
});
zstn_fuzz::keep_lengths!();
