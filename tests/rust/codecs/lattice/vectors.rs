//! Golden vectors whose elements were computed with numpy.

use zstn_core::engine::Engine;
use zstn_core::frame::decompress;
use zstn_core::pure::Pure;
use zstn_tests::cases;

use super::native;

fn vectors_decode(engine: &impl Engine) {
    let manifest: serde_json::Value =
        serde_json::from_slice(&cases::read("zxq1", "manifest.json")).expect("JSON");
    let cases = manifest["cases"].as_object().expect("cases");
    assert!(cases.len() >= 21, "{} vectors", cases.len());
    for name in cases.keys() {
        let frame = cases::read("zxq1", &format!("{name}.zxq1"));
        let truth = cases::read("zxq1", &format!("{name}.bin"));
        let bytes = decompress(engine, &frame, truth.len() as u64)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let wrong = bytes.iter().zip(&truth).position(|(a, b)| a != b);
        assert_eq!(wrong, None, "{name}: the first wrong byte");
        assert_eq!(bytes.len(), truth.len(), "{name}");
    }
}

#[test]
fn vectors_decode_with_c_zstd() {
    vectors_decode(&native());
}

#[test]
fn vectors_decode_with_rust_alone() {
    vectors_decode(&Pure);
}
