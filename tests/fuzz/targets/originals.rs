//! Compares the decision whether an original may be removed with plain decoding: a
//! stored file proves only the original that it restores.

#![no_main]

use std::io::Write;

use libfuzzer_sys::fuzz_target;
use sha2::{Digest, Sha256};
use zstn_hub::proof::{StoredFile, check_restores};
use zstn_core::container::zstn::unpack;
use zstn_fuzz::{LIMIT_BYTES, NATIVE, catalog};

fuzz_target!(|file: &[u8]| {
    if catalog(file).is_ok_and(|file| file.original_len_bytes() > LIMIT_BYTES) {
        return;
    }
    let mut stored = tempfile::NamedTempFile::new().expect("a temporary file");
    stored.write_all(file).expect("a temporary file");
    let proves = |original: &str, listed: Option<&[u8]>| {
        let mut stored = StoredFile::new(stored.path());
        if let Some(listed) = listed {
            stored = stored.sha256(sha256(listed));
        }
        check_restores(&NATIVE, &stored, original, &()).is_ok()
    };
    let Ok(restored) = unpack(&*NATIVE, file) else {
        // This holds whatever original the file claims to restore.
        assert!(!proves(&sha256(file), None));
        return;
    };
    let original = sha256(&restored);
    assert!(proves(&original, Some(file)));
    assert!(!proves(&original, Some(&restored)));
    assert!(!proves(&sha256(file), None));
    assert!(!proves("", None));
});
zstn_fuzz::keep_lengths!();

fn sha256(bytes: &[u8]) -> String {
    let digest = Sha256::digest(bytes);
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
