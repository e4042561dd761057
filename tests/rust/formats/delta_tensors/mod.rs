//! Reads single tensors from deltas: few reads suffice, the result is correct or
//! refused, and every walk over the records ends.

mod damage;

use std::ops::Range;

use zstn_core::bytes::{index, part};
use zstn_core::catalog::{BaseUse, FileCatalog, FileKind, FileOpener};
use zstn_core::container::model_delta::{Base, ModelDelta, pack};
use zstn_core::container::zstn::{self as container, ContainerOptions};
use zstn_core::engine::Engine;
use zstn_core::frame::select::{Effort, EncodeOptions};
use zstn_core::model::{DecodeTask, Model, ModelBuilder};
use zstn_core::pure::Pure;
use zstn_core::{Result, Rule};
use zstn_tests::checkpoints::fine_tuned;
use zstn_tests::rng::Rng;
use zstn_tests::{cases, checkpoint};

/// A file opened by ranges, with the number of rounds and bytes that opening took.
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
    /// Reads and decodes the tensor `name`, with the corresponding tensors of `bases`.
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

/// Opens a delta and its base, compares every tensor with the target, and returns the
/// opened delta.
fn assert_reads<'f>(delta: &'f [u8], base: &[u8], target: &[u8], what: &str) -> Opened<'f> {
    let opened_delta = opened(delta).unwrap_or_else(|error| panic!("{what}: {error}"));
    let (base, target) = (opened(base).unwrap(), opened(target).unwrap());
    opened_delta.catalog.check_base(&base.catalog).unwrap();
    assert_eq!(opened_delta.catalog.kind(), FileKind::Delta);
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

/// Returns a base and a target of `count` noisy tensors. The first half is unchanged,
/// and the last tensor is new.
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

/// Removes the trailer from a delta, which makes it a delta as z4ai writes it.
fn without_trailer(delta: &[u8]) -> Vec<u8> {
    let parsed = ModelDelta::parse(delta).unwrap();
    let records = parsed.records();
    let mut bare = part(delta, 0..records.last().unwrap().payload.end).to_vec();
    // The highest bit of the payload's flags announces the trailer.
    for record in records.iter().filter(|record| !record.payload.is_empty()) {
        let start = index(record.payload.start);
        let flags = match &bare[start..start + 4] {
            b"ZSP1" | b"ZPL1" => start + 6,
            _ => start + 5,
        };
        bare[flags] &= 0x7F;
    }
    bare
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

/// Name of a tensor with small changes everywhere.
const CHANGED: &str = "up";

fn catalog(file: &[u8]) -> FileCatalog {
    opened(file).expect("opens").catalog
}

fn model(file: &[u8]) -> Model {
    let builder = ModelBuilder::new(vec![catalog(file)], None, None).expect("a model");
    builder.finish(&Pure).expect("a model")
}

/// Returns the stored bytes of the tensor [`CHANGED`].
fn stored(file: &[u8]) -> &[u8] {
    let catalog = catalog(file);
    let number = catalog.find(CHANGED).expect("is there");
    part(file, catalog.tensors()[number].stored.clone())
}

#[test]
fn a_base_that_holds_digests_changes_neither_tensors_nor_refusals() {
    let (base, tuned) = fine_tuned();
    let parsed = Base::parse(&base).expect("a base");
    let options = EncodeOptions::default().extended(true);
    let delta = pack(&Pure, &tuned, &parsed, options).expect("packs");
    let [right, expected] = [&base, &tuned].map(|file| stored(file));
    let mut wrong = right.to_vec();
    wrong[77] ^= 1;
    let mut other_base = base.clone();
    let at = base.windows(64).position(|bytes| bytes == &right[..64]);
    other_base[at.expect("is in the file") + 77] ^= 1;

    let alone = model(&delta);
    let number = alone.find(CHANGED).expect("is there");
    let bases = [&base, &other_base].map(|base| {
        let packed = container::pack(&Pure, base, ContainerOptions::default()).expect("packs");
        [model(&packed), model(base)]
    });
    for base in bases.as_flattened() {
        let mut attached = model(&delta);
        attached.attach_base(base).expect("fits");
        let task = attached.decode_task(number).expect("a task").to_bytes();
        let task = DecodeTask::from_bytes(&task).expect("a task");
        let decode = |stored: &[u8], base: &[u8]| {
            let parts = [stored];
            let direct = attached.decode(&Pure, number, &parts, Some(base));
            let by_task = task.decode(&Pure, &parts, Some(base));
            let unattached = alone.decode(&Pure, number, &parts, Some(base));
            assert_eq!(direct, unattached);
            assert_eq!(by_task, unattached);
            unattached.map(Vec::from)
        };
        let good = stored(&delta);
        assert!(decode(good, right).expect("decodes") == expected);
        let error = decode(good, &wrong).expect_err("another base");
        assert_eq!(error.rule(), Some(Rule::DeltaReference));
        for step in [1, good.len() / 2, good.len() - 1] {
            let mut damaged = good.to_vec();
            damaged[step] ^= 0x10;
            assert!(decode(&damaged, right).is_err(), "{step}");
            assert!(decode(&damaged, &wrong).is_err(), "{step}");
        }
    }
}
