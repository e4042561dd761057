//! The vectors of both delta formats, well-formed and malformed.

use zstn_core::frame::delta::Delta;
use zstn_core::pure::Pure;
use zstn_tests::cases::{self, text};
use zstn_tests::refusal::Refusal;

use super::restore;

#[test]
fn model_deltas_of_the_vectors_restore() {
    let native = zstn::Engine::new(2).unwrap();
    let mut restored = 0;
    for case in cases::deltas("zstn", "z4dm") {
        let packed = cases::named("zstn", &case["container"]);
        let base = cases::named("zstn", &case["base"]);
        let target = cases::named("zstn", &case["target"]);
        for result in [
            restore(&native, &packed, &base),
            restore(&Pure, &packed, &base),
        ] {
            let bytes = result.unwrap_or_else(|error| panic!("{}: {error}", case["name"]));
            assert!(bytes == target, "{}", case["name"]);
            restored += 1;
        }
    }
    assert_eq!(restored, 42);
}

#[test]
fn buffer_deltas_of_the_vectors_decode() {
    let native = zstn::Engine::new(2).unwrap();
    let mut decoded = 0;
    for case in cases::deltas("zstn", "z4delta") {
        let blob = cases::named("zstn", &case["container"]);
        let reference = cases::named("zstn", &case["reference"]);
        let delta = Delta::parse(&blob).unwrap();
        for result in [
            delta.decode(&Pure, &reference),
            delta.decode(&native, &reference),
        ] {
            let bytes = result.unwrap_or_else(|error| panic!("{}: {error}", case["name"]));
            let current = cases::named("zstn", &case["current"]);
            assert!(bytes == current, "{}", case["name"]);
            decoded += 1;
        }
    }
    assert_eq!(decoded, 24);
}

#[test]
fn malformed_deltas_are_refused_for_their_rule() {
    let native = zstn::Engine::new(2).unwrap();
    let mut refused = 0;
    for case in cases::deltas("zstn-bad", "z4dm") {
        let base = cases::named("zstn-bad", &case["base"]);
        let packed = cases::named("zstn-bad", &case);
        for result in [
            restore(&Pure, &packed, &base),
            restore(&native, &packed, &base),
        ] {
            if case["verdict"] == "must_reject" {
                let name = text(&case["name"]);
                Refusal::of(&case).expect(&name).check(&name, result);
                refused += 1;
            }
        }
    }
    for case in cases::deltas("zstn-bad", "z4delta") {
        let blob = cases::named("zstn-bad", &case);
        let reference = cases::named("zstn-bad", &case["reference"]);
        let parsed = Delta::parse(&blob);
        for result in [
            parsed
                .clone()
                .and_then(|delta| delta.decode(&Pure, &reference)),
            parsed.and_then(|delta| delta.decode(&native, &reference)),
        ] {
            let name = text(&case["name"]);
            Refusal::of(&case).expect(&name).check(&name, result);
            refused += 1;
        }
    }
    assert_eq!(refused, 2 * (9 + 6));
}
