//! Reads single tensors from deltas: few reads suffice, the result is correct or
//! refused, and every walk over the records ends.

mod attached;
mod damage;
mod reading;

use std::ops::Range;

use zstn_core::Result;
use zstn_core::bytes::{index, part};
use zstn_core::catalog::{FileCatalog, FileOpener, Kind};
use zstn_core::container::model_delta::{Base, ModelDelta, pack};
use zstn_core::engine::Engine;
use zstn_core::frame::select::Effort;
use zstn_core::pure::Pure;
use zstn_tests::checkpoint;
use zstn_tests::rng::Rng;

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
