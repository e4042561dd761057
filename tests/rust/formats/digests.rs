//! Digests of the vectors as encoded by the Rust encoder. The npm package must produce
//! the same digests.

use std::collections::BTreeMap;
use std::env;
use std::fs;

use zstn_core::frame::select::Effort;
use zstn_tests::repository;

/// Digests, keyed by the name of the case.
pub type Digests = BTreeMap<String, String>;

/// Compares the digests at every effort with the ones in the vector file `name`.
/// `digests_of` must return at least `min_cases` digests.
pub fn check(name: &str, min_cases: usize, digests_of: impl Fn(Effort) -> Digests) {
    let efforts = [
        ("fast", Effort::Fast),
        ("balanced", Effort::Balanced),
        ("max", Effort::Max),
    ];
    let ours: BTreeMap<&str, Digests> = efforts
        .into_iter()
        .map(|(name, effort)| (name, digests_of(effort)))
        .collect();
    assert!(
        ours["balanced"].len() >= min_cases,
        "the vectors were found"
    );
    let ours = serde_json::to_value(ours).expect("plain strings");
    let path = repository().join("tests/vectors").join(name);
    if env::var_os("ZSTN_WRITE_DIGESTS").is_some() {
        let text = serde_json::to_string_pretty(&ours).expect("plain strings") + "\n";
        fs::write(&path, text).expect("the vectors can be written");
    }
    let text = fs::read(&path).expect("the digests are in the repository");
    let known: serde_json::Value = serde_json::from_slice(&text).expect("JSON");
    assert!(
        ours == known,
        "the encoder chooses differently from what is written down: ZSTN_WRITE_DIGESTS=1 \
         writes it anew, if that was intended"
    );
}
