//! Restores a delta (`Z4DM`) with its base, as a whole and tensor by tensor.

#![no_main]

use libfuzzer_sys::fuzz_target;
use zstn_core::bytes::index;
use zstn_core::container::model_delta::{Base, BaseHeader, ModelDelta};
use zstn_core::model::Model;
use zstn_core::pure::Pure;
use zstn_fuzz::with_and_without_checksums;
use zstn_fuzz::{LIMIT_BYTES, NATIVE, agree, model, pair, part, parts, speak};

fuzz_target!(|input: &[u8]| {
    let Some((base_file, delta)) = pair(input) else {
        return;
    };
    with_and_without_checksums(|_| {
        if let Ok(base) = Base::parse(base_file) {
            match ModelDelta::parse(delta) {
                Ok(delta) => agree(&delta.unpack(&*NATIVE, &base), &delta.unpack(&Pure, &base)),
                Err(error) => speak(&error),
            }
        }
        let (Ok(base), opened) = (model(base_file, None), model(delta, None)) else {
            return;
        };
        let mut model = match opened {
            Ok(model) => model,
            Err(error) => return speak(&error),
        };
        combine(&model, base_file);
        if let Err(error) = model.attach_base(&base) {
            return speak(&error);
        }
        for (number, tensor) in model.tensors().iter().enumerate() {
            if tensor.len_bytes() > LIMIT_BYTES {
                continue;
            }
            let reference = tensor.base.and_then(|_| {
                let stored = base.plain_part(base.find(model.name_in_base(number)?).ok()?)?;
                Some(part(base_file, stored.stored.clone()))
            });
            let parts = parts(tensor, &[delta]);
            let by_c = model.decode(&*NATIVE, number, &parts, reference);
            agree(&by_c, &model.decode(&Pure, number, &parts, reference));
        }
    });
});

/// Computes the base of a merge, with `source` in place of every checkpoint.
fn combine(delta: &Model, source: &[u8]) {
    for file in delta.files() {
        let count = file.mixes().map_or(0, |mixes| mixes.sources());
        let headers = (0..count).map(|_| BaseHeader::parse(source, source.len() as u64));
        let Ok(headers) = headers.collect::<Result<Vec<_>, _>>() else {
            return;
        };
        let base = match file.mixed_base(&headers) {
            Ok(base) => base.unwrap_or_default(),
            Err(error) => return speak(&error),
        };
        for tensor in base.tensors {
            let places = tensor.places.iter();
            let parts = places.map(|place| part(source, place.range.clone()));
            let parts: Vec<&[u8]> = parts.collect();
            let len_bytes = tensor.range.end - tensor.range.start;
            let mut out = vec![0; index(len_bytes)];
            tensor.compute(&parts, &mut out).expect("all elements");
        }
    }
}
zstn_fuzz::keep_lengths!();
