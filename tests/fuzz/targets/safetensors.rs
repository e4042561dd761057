//! Compares the safetensors parser with the official crate: files that the official
//! crate accepts have the same tensors here.

#![no_main]

use libfuzzer_sys::fuzz_target;
use safetensors::SafeTensors;
use zstn_fuzz::{NATIVE, model, parts, speak};

fuzz_target!(|file: &[u8]| {
    let ours = model(file, None);
    if let Err(error) = &ours {
        speak(error);
    }
    let Ok(official) = SafeTensors::deserialize(file) else {
        return;
    };
    let ours = ours.unwrap_or_else(|error| panic!("only the official reader takes it: {error}"));
    assert_eq!(ours.tensors().len(), official.len());
    for (name, view) in official.tensors() {
        let number = ours.find(&name).expect("a tensor of the official reader");
        let tensor = &ours.tensors()[number];
        let shape: Vec<u64> = view.shape().iter().map(|&size| size as u64).collect();
        assert_eq!(tensor.shape, shape, "{name}");
        assert_eq!(tensor.dtype.name(), view.dtype().to_string(), "{name}");
        let bytes = ours.decode(&*NATIVE, number, &parts(tensor, &[file]), None);
        assert!(*bytes.expect("plain bytes") == *view.data(), "{name}");
    }
});
zstn_fuzz::keep_lengths!();
