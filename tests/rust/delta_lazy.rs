//! Single tensors out of deltas: few reads, the right bytes or a refusal, and
//! an end to every walk.

use std::ops::Range;

use zstn_core::bytes::part;
use zstn_core::catalog::{BaseUse, FileCatalog, FileOpener, Kind};
use zstn_core::container::model_delta::{Base, ModelDelta, pack};
use zstn_core::container::zstn as container;
use zstn_core::engine::Engine;
use zstn_core::frame::select::Effort;
use zstn_core::pure::Pure;
use zstn_core::{ErrorKind, Result};
use zstn_tests::cases;
use zstn_tests::checkpoint;
use zstn_tests::refusal::Refusal;
use zstn_tests::rng::Rng;

/// A file opened by its ranges, and what that took.
struct Opened<'f> {
    file: &'f [u8],
    catalog: FileCatalog,
    rounds: usize,
    fetched: u64,
}

fn opened(file: &[u8]) -> Result<Opened<'_>> {
    let len = file.len() as u64;
    let head = part(file, 0..FileOpener::head_len_bytes(len)).to_vec();
    let (mut rounds, mut fetched) = (1, head.len() as u64);
    let mut opening = FileOpener::new(len, head)?;
    loop {
        let needs = opening.needs()?;
        if needs.is_empty() {
            let catalog = opening.finish(&Pure)?;
            return Ok(Opened {
                file,
                catalog,
                rounds,
                fetched,
            });
        }
        rounds += 1;
        assert!(rounds < 10_000, "opening does not end");
        for Range { start, end } in needs {
            assert!(start < end && end <= len, "{start}..{end} of {len}");
            fetched += end - start;
            opening.supply(start, part(file, start..end))?;
        }
    }
}

impl Opened<'_> {
    /// The tensor `name`, with those of the `bases` behind it.
    fn tensor(&self, engine: &impl Engine, name: &str, bases: &[&Self]) -> Result<Vec<u8>> {
        let number = self.catalog.find(name)?;
        let tensor = &self.catalog.tensors()[number];
        let base = match (tensor.base, bases.split_first()) {
            (Some(_), Some((base, rest))) => Some(base.tensor(engine, name, rest)?),
            _ => None,
        };
        let stored = part(self.file, tensor.stored.clone());
        self.catalog
            .decode_against(engine, number, stored, base.as_deref())
            .map(std::borrow::Cow::into_owned)
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        self.catalog
            .tensors()
            .iter()
            .map(|tensor| tensor.name.as_str())
    }
}

/// Opens both, compares every tensor with the target's; returns the opened
/// delta.
fn assert_reads<'f>(delta: &'f [u8], base: &[u8], target: &[u8], what: &str) -> Opened<'f> {
    let opened_delta = opened(delta).unwrap_or_else(|error| panic!("{what}: {error}"));
    let (base, target) = (opened(base).unwrap(), opened(target).unwrap());
    opened_delta.catalog.check_base(&base.catalog).unwrap();
    assert_eq!(opened_delta.catalog.kind(), Kind::Delta);
    assert_eq!(
        opened_delta.catalog.original_len_bytes(),
        target.catalog.len_bytes()
    );
    assert_eq!(opened_delta.catalog.metadata(), target.catalog.metadata());
    assert!(opened_delta.names().eq(target.names()), "{what}");
    let native = zstn::Engine::new(2).unwrap();
    for name in target.names() {
        let truth = target.tensor(&Pure, name, &[]).unwrap();
        let [a, b] = [
            opened_delta.tensor(&Pure, name, &[&base]),
            opened_delta.tensor(&native, name, &[&base]),
        ];
        assert!(a.unwrap() == truth && b.unwrap() == truth, "{what}: {name}");
    }
    opened_delta
}

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
    assert_eq!(read, 20);
}

/// A base and a target of `count` noisy tensors, the first half of them as in
/// the base, the last one new.
fn pair(count: usize, len_bytes: usize) -> (Vec<u8>, Vec<u8>) {
    let mut rng = Rng(count as u64);
    let names: Vec<String> = (0..count)
        .map(|i| format!("model.layers.{i}.weight"))
        .collect();
    let old: Vec<Vec<u8>> = names.iter().map(|_| rng.bytes(len_bytes)).collect();
    let mut new = old.clone();
    for tensor in &mut new[count / 2..] {
        for byte in tensor.iter_mut().step_by(3) {
            *byte = byte.wrapping_add(1 + rng.bytes(1)[0] / 2);
        }
    }
    let file = |tensors: &[Vec<u8>]| {
        let list: Vec<_> = names
            .iter()
            .zip(tensors)
            .map(|(n, t)| (n.as_str(), "BF16", &t[..]))
            .collect();
        checkpoint(&list)
    };
    (file(&old[..count - 1]), file(&new))
}

fn with_trailer(base: &[u8], target: &[u8]) -> Vec<u8> {
    let engine = zstn::Engine::new(2).unwrap();
    pack(&engine, target, &Base::parse(base).unwrap(), Effort::Fast).unwrap()
}

/// The same delta as z4ai would leave it.
fn without_trailer(delta: &[u8]) -> Vec<u8> {
    let records = ModelDelta::parse(delta).unwrap();
    part(delta, 0..records.records().last().unwrap().payload.end).to_vec()
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
    // Copies lie together, the others take a window each.
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
fn damage_to_the_places_of_a_walk_ends_in_a_refusal() {
    let (base, target) = pair(300, 80_000);
    let delta_with_trailer = with_trailer(&base, &target);
    let delta = without_trailer(&delta_with_trailer);
    let records = ModelDelta::parse(&delta_with_trailer).unwrap();
    let mut rng = Rng(9);
    let mut refused = 0;
    for record in records.records().iter().step_by(10) {
        let end = usize::try_from(record.payload.start).unwrap();
        for _ in 0..8 {
            let mut flipped = delta.clone();
            let bit =
                usize::try_from(rng.next_u64() % (19 + record.name.len() as u64) * 8).unwrap();
            flipped[end - 1 - bit / 8] ^= 1 << (rng.next_u64() % 8);
            refused += usize::from(opened(&flipped).is_err());
        }
        // A cut file.
        assert!(opened(&delta[..end]).is_err());
    }
    assert!(refused >= 200, "{refused}");
    // More records than the header lists, and other numbers that lie.
    let count_at = 29 + records.header().len();
    for (at, bytes) in [
        (count_at, &u32::MAX.to_le_bytes()[..]),
        (count_at, &0u32.to_le_bytes()),
        (5, &u64::MAX.to_le_bytes()),
        (5, &(1u64 << 40).to_le_bytes()),
        (count_at - 16, &(1u64 << 50).to_le_bytes()),
    ] {
        let mut forged = delta.clone();
        forged[at..at + bytes.len()].copy_from_slice(bytes);
        let error = opened(&forged).err().expect("refused");
        assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
    }
}

#[test]
fn a_damaged_delta_with_a_trailer_gives_exact_tensors_or_refusals() {
    let mut rng = Rng(6);
    let weights = rng.bf16_weights(120);
    let mut tuned = weights.clone();
    tuned[9] ^= 5;
    let base = checkpoint(&[("same", "BF16", &weights), ("tuned", "BF16", &weights)]);
    let target = checkpoint(&[
        ("tuned", "BF16", &tuned),
        ("same", "BF16", &weights),
        ("new", "U8", &tuned),
    ]);
    let delta = with_trailer(&base, &target);
    let (base, target) = (opened(&base).unwrap(), opened(&target).unwrap());
    let (mut refused, mut exact) = (0, 0);
    let mut check = |damaged: &[u8], what: &str| {
        let Ok(opened) = opened(damaged) else {
            refused += 1;
            return;
        };
        if opened.catalog.check_base(&base.catalog).is_err() {
            refused += 1;
            return;
        }
        assert!(opened.names().eq(target.names()), "{what}");
        for (tensor, truth) in opened
            .catalog
            .tensors()
            .iter()
            .zip(target.catalog.tensors())
        {
            assert_eq!(
                (tensor.dtype, &tensor.shape),
                (truth.dtype, &truth.shape),
                "{what}"
            );
            match opened.tensor(&Pure, &tensor.name, &[&base]) {
                Err(_) => refused += 1,
                Ok(bytes) => {
                    assert!(
                        bytes == target.tensor(&Pure, &tensor.name, &[]).unwrap(),
                        "{what}"
                    );
                    exact += 1;
                }
            }
        }
    };
    for bit in 0..delta.len() * 8 {
        let mut flipped = delta.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        check(&flipped, &format!("bit {bit}"));
    }
    for len in 0..delta.len() {
        check(&delta[..len], &format!("cut at {len}"));
    }
    assert!(
        refused > 3000 && exact > 1000,
        "{refused} refused, {exact} exact"
    );
}

#[test]
fn malformed_vectors_are_refused_for_their_rule() {
    let mut refused = 0;
    for case in cases::deltas("zstn-bad", "z4dm") {
        let name = case["name"].as_str().unwrap();
        if case["verdict"] != "must_reject" {
            continue;
        }
        let delta = cases::named("zstn-bad", &case);
        let base = cases::named("zstn-bad", &case["base"]);
        let result = opened(&delta).and_then(|delta| {
            let base = opened(&base)?;
            delta.catalog.check_base(&base.catalog)?;
            for name in delta.names() {
                delta.tensor(&Pure, name, &[&base])?;
            }
            Ok(())
        });
        Refusal::of_opened(&case).check(name, result);
        refused += 1;
    }
    assert_eq!(refused, 8);
}

#[test]
fn bases_that_do_not_fit() {
    let mut rng = Rng(12);
    let [a, b, longer] = [200, 200, 300].map(|count| rng.bf16_weights(count));
    let mut tuned = a.clone();
    tuned[3] ^= 1;
    let base = checkpoint(&[("a", "BF16", &a), ("b", "BF16", &b)]);
    let delta_file = with_trailer(
        &base,
        &checkpoint(&[("a", "BF16", &tuned), ("b", "BF16", &b)]),
    );
    let delta = opened(&delta_file).unwrap();
    for (base, rule, tensor) in [
        (
            checkpoint(&[("b", "BF16", &b)]),
            "delta.base_tensor",
            Some("a"),
        ),
        (
            checkpoint(&[("a", "BF16", &a), ("b", "BF16", &longer)]),
            "delta.base_tensor",
            Some("b"),
        ),
        (
            checkpoint(&[("a", "BF16", &a), ("b", "F16", &b)]),
            "delta.base_tensor",
            Some("b"),
        ),
        (
            checkpoint(&[("b", "BF16", &b), ("a", "BF16", &a)]),
            "delta.reference",
            None,
        ),
        (
            checkpoint(&[("a", "BF16", &a), ("b", "BF16", &b), ("c", "U8", b"1")]),
            "delta.reference",
            None,
        ),
    ] {
        let error = delta
            .catalog
            .check_base(&opened(&base).unwrap().catalog)
            .unwrap_err();
        assert_eq!(
            (error.rule().map(|r| r.code()), error.tensor_name()),
            (Some(rule), tensor),
            "{error}"
        );
    }
    // The same names and lengths with other bytes show when they are read.
    let mut other_b = b.clone();
    other_b[100] ^= 1;
    let other = checkpoint(&[("a", "BF16", &b), ("b", "BF16", &other_b)]);
    let other = opened(&other).unwrap();
    delta.catalog.check_base(&other.catalog).unwrap();
    for (name, rule) in [("a", "delta.reference"), ("b", "delta.tensor")] {
        let error = delta.tensor(&Pure, name, &[&other]).unwrap_err();
        assert_eq!(
            (error.rule().map(|r| r.code()), error.tensor_name()),
            (Some(rule), Some(name)),
            "{error}"
        );
    }
    let error = delta.tensor(&Pure, "a", &[]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    let error = other.catalog.check_base(&other.catalog).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
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
