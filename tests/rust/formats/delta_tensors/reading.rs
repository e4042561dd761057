//! Tensors are read correctly in few round trips.

use zstn_core::catalog::BaseUse;
use zstn_core::container::model_delta::{Base, ModelDelta, pack};
use zstn_core::container::zstn as container;
use zstn_core::frame::select::Effort;
use zstn_core::pure::Pure;
use zstn_tests::cases;

use super::{assert_reads, opened, pair, with_trailer, without_trailer};

#[test]
fn vectors_and_our_own_of_them() {
    let engine = zstn::Engine::new(2).unwrap();
    let mut read = 0;
    for case in cases::deltas("zstn", "z4dm") {
        let name = case["name"].as_str().unwrap();
        let [base, target] = ["base", "target"].map(|part| cases::named("zstn", &case[part]));
        let theirs = cases::named("zstn", &case["container"]);
        if case["official_target"]["valid"] != true {
            assert!(opened(&theirs).is_err(), "{name}");
            continue;
        }
        let ours = pack(&engine, &target, &Base::parse(&base).unwrap(), Effort::Fast).unwrap();
        if case["official_base"]["valid"] != true {
            assert!(opened(&base).is_err(), "{name}");
            continue;
        }
        assert!(
            !assert_reads(&theirs, &base, &target, name)
                .catalog
                .has_tensor_digests()
                || name == "md_zero_tensors"
        );
        assert!(
            assert_reads(&ours, &base, &target, name)
                .catalog
                .has_tensor_digests()
        );
        read += 1;
    }
    assert_eq!(read, 19);
}

#[test]
fn a_delta_with_a_trailer_opens_in_two_round_trips() {
    for (count, len_bytes) in [(3, 100), (40, 50_000), (2000, 3000)] {
        let (base, target) = pair(count, len_bytes);
        let delta = with_trailer(&base, &target);
        let opened = assert_reads(&delta, &base, &target, "with trailer");
        assert!(
            opened.rounds <= 2,
            "{} rounds for {count} tensors",
            opened.rounds
        );
        let header = ModelDelta::parse(&delta).unwrap().header().len() as u64;
        let most = (32 << 10) + 3 * header / 2 + 512;
        assert!(
            opened.fetched <= most,
            "{} bytes, allowed {most}",
            opened.fetched
        );
        let copies = opened
            .catalog
            .tensors()
            .iter()
            .filter(|t| t.base == Some(BaseUse::Copy));
        assert!(copies.clone().count() == count / 2 && copies.clone().all(|t| t.stored.is_empty()));
    }
}

#[test]
fn a_delta_without_a_trailer_is_walked() {
    let (base, target) = pair(300, 80_000);
    let delta = without_trailer(&with_trailer(&base, &target));
    assert!(delta.len() > 4 << 20);
    let walked = assert_reads(&delta, &base, &target, "walked");
    assert!(!walked.catalog.has_tensor_digests());
    // Copied tensors are adjacent; each other tensor takes one window.
    assert!(
        (100..=160).contains(&walked.rounds),
        "{} rounds",
        walked.rounds
    );
    assert!(walked.fetched < 1 << 20, "{} bytes", walked.fetched);

    let (base, target) = pair(30, 40_000);
    let delta = without_trailer(&with_trailer(&base, &target));
    let whole = assert_reads(&delta, &base, &target, "whole");
    assert!(whole.rounds <= 3 && whole.fetched == delta.len() as u64);
}

#[test]
fn packed_bases_and_chains() {
    let (first, second) = pair(12, 9000);
    let mut third = second.clone();
    let last = third.len() - 1;
    third[last] ^= 0x11;
    let packed = container::pack(&zstn::Engine::new(1).unwrap(), &first, Effort::Fast).unwrap();
    let (to_second, to_third) = (with_trailer(&first, &second), with_trailer(&second, &third));
    let bases = [opened(&to_second).unwrap(), opened(&packed).unwrap()];
    let newest = opened(&to_third).unwrap();
    newest.catalog.check_base(&bases[0].catalog).unwrap();
    bases[0].catalog.check_base(&bases[1].catalog).unwrap();
    let truth = opened(&third).unwrap();
    for name in truth.names() {
        let read = newest.tensor(&Pure, name, &[&bases[0], &bases[1]]).unwrap();
        assert!(read == truth.tensor(&Pure, name, &[]).unwrap(), "{name}");
    }
}
