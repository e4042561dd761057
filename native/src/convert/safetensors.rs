//! Writes safetensors files: a single one, or shards with an index
//! (docs/formats/sharded.md).

use std::ops::Range;
use std::path::Path;

use serde::Serialize;
use zstn_core::catalog::FileKind;
use zstn_core::container::safetensors::{self, HeaderTensor, SHARD_INDEX_SUFFIX};

use super::Written;
use super::conversion::Conversion;
use crate::output::{Staging, check_file};
use crate::progress::Unpublished;
use crate::unpack::unpack_file;
use crate::{Error, Progress as _, Result};

pub fn write(conversion: &Conversion) -> Result<Written> {
    if let Some(naming) = Naming::of_index(conversion.output)? {
        return write_shards(conversion, &naming, |plan, path, conversion| {
            plan.write(conversion, path)?;
            Ok(plan.len_bytes())
        });
    }
    if let Some(packed) = conversion.local(FileKind::Zstn)? {
        // This restores the original file, including the spaces in its header.
        let output = conversion.create(conversion.output)?;
        let report = unpack_file(&conversion.job, &packed, None, output)?;
        return Ok(Written::file(conversion, report.original_bytes));
    }
    let plan = Plan::new(conversion, 0..conversion.tensors().len())?;
    conversion.job.begin(conversion.tensor_bytes());
    plan.write(conversion, conversion.output)?;
    Ok(Written::file(conversion, plan.len_bytes()))
}

/// A safetensors file to be written, whose header has already been made.
pub struct Plan {
    pub tensors: Range<usize>,
    head: Vec<u8>,
    data_len_bytes: u64,
}

impl Plan {
    /// Plans a file with some of the tensors and with the metadata of the whole
    /// checkpoint.
    pub fn new(conversion: &Conversion, tensors: Range<usize>) -> Result<Self> {
        let mut end = 0u64;
        let entries: Vec<HeaderTensor> = conversion.tensors()[tensors.clone()]
            .iter()
            .map(|tensor| {
                let start = end;
                end = end.saturating_add(tensor.len_bytes());
                HeaderTensor {
                    name: tensor.name.clone(),
                    dtype: tensor.dtype,
                    shape: tensor.shape.clone(),
                    span: start..end,
                }
            })
            .collect();
        let head = safetensors::head(conversion.reader.metadata(), &entries)
            .map_err(conversion.refuse())?;
        Ok(Self {
            tensors,
            head,
            data_len_bytes: end,
        })
    }

    pub fn len_bytes(&self) -> u64 {
        self.head.len() as u64 + self.data_len_bytes
    }

    /// Writes the file at `path`.
    pub fn write(&self, conversion: &Conversion, path: &Path) -> Result<()> {
        let mut output = conversion.create(path)?;
        output.write(&self.head)?;
        let numbers: Vec<usize> = self.tensors.clone().collect();
        conversion.each(
            &numbers,
            |_, tensor| Ok(tensor.bytes),
            |_, bytes| output.write(&bytes),
        )?;
        output.complete(&conversion.job).map(drop)
    }
}

/// The names of an index and its shards, derived from the name of the index.
pub struct Naming {
    /// The part of the names before the extension.
    stem: String,
    extension: String,
}

impl Naming {
    /// Returns the naming for the index `path`; `None` if it is not named like an
    /// index.
    pub fn of_index(path: &Path) -> Result<Option<Self>> {
        let name = path.file_name().unwrap_or_default();
        if !name.to_string_lossy().ends_with(SHARD_INDEX_SUFFIX) {
            return Ok(None);
        }
        let file = name
            .to_str()
            .and_then(|n| n.strip_suffix(SHARD_INDEX_SUFFIX));
        let parts = file.and_then(|file| file.rsplit_once('.'));
        let parts = parts.filter(|(_, extension)| ["safetensors", "zstn"].contains(extension));
        let (stem, extension) = parts.ok_or_else(|| {
            Error::Usage(format!(
                "{} is not a name for an index: it has to end in .safetensors.index.json or \
                 .zstn.index.json",
                path.display()
            ))
        })?;
        Ok(Some(Self {
            stem: stem.into(),
            extension: extension.into(),
        }))
    }

    /// Returns the naming that model hubs use.
    pub fn of_model() -> Self {
        Self {
            stem: "model".into(),
            extension: "safetensors".into(),
        }
    }

    /// Returns the name of a single file that contains all tensors.
    pub fn single(&self) -> String {
        format!("{}.{}", self.stem, self.extension)
    }

    /// Returns the name of one of `count` shards; `number` counts from 0.
    pub fn shard(&self, number: usize, count: usize) -> String {
        let Self { stem, extension } = self;
        format!("{stem}-{:05}-of-{count:05}.{extension}", number + 1)
    }

    /// Returns the name of the index.
    pub fn index(&self) -> String {
        format!("{}.{}{SHARD_INDEX_SUFFIX}", self.stem, self.extension)
    }
}

/// Divides tensors of these lengths into shards of at most `most_bytes`. A longer
/// tensor is a shard of its own.
pub fn cut(lens_bytes: &[u64], most_bytes: u64) -> Vec<Range<usize>> {
    let mut shards = Vec::new();
    let (mut start, mut held) = (0, 0u64);
    for (number, &len) in lens_bytes.iter().enumerate() {
        if start < number && held.saturating_add(len) > most_bytes {
            shards.push(start..number);
            (start, held) = (number, 0);
        }
        held = held.saturating_add(len);
    }
    if start < lens_bytes.len() {
        shards.push(start..lens_bytes.len());
    }
    shards
}

/// Returns the text of an index that maps tensor names to file names.
pub fn index<'a>(total_bytes: u64, tensors: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Metadata {
        total_size: u64,
    }
    #[derive(Serialize)]
    struct Index<'a> {
        metadata: Metadata,
        // The names are sorted, as in the files that the packages of model hubs write.
        weight_map: std::collections::BTreeMap<&'a str, &'a str>,
    }
    let index = Index {
        metadata: Metadata {
            total_size: total_bytes,
        },
        weight_map: tensors.collect(),
    };
    let mut text = serde_json::to_vec_pretty(&index).expect("texts and a number are JSON");
    text.push(b'\n');
    text
}

/// Writes all tensors of the input into shards. `make` writes the shard of a plan to a
/// path and returns the length of the file.
pub fn write_shards(
    conversion: &Conversion,
    naming: &Naming,
    make: impl Fn(&Plan, &Path, &Conversion) -> Result<u64>,
) -> Result<Written> {
    // The shards are published together, after the index has been written.
    let job = &conversion.job;
    let unpublished = Unpublished(job);
    let conversion = &conversion.with_job(job.clone().progress(&unpublished));
    let tensors = conversion.tensors();
    if tensors.is_empty() {
        return Err(Error::Usage(format!(
            "{} has no tensors, and an index has to name one: write a single file",
            conversion.input
        )));
    }
    let lens: Vec<u64> = tensors.iter().map(|tensor| tensor.len_bytes()).collect();
    let cuts = cut(&lens, conversion.options.shard_bytes);
    let plans = cuts.into_iter().map(|shard| Plan::new(conversion, shard));
    let plans = plans.collect::<Result<Vec<Plan>>>()?;
    let mut names: Vec<String> = (0..plans.len())
        .map(|number| naming.shard(number, plans.len()))
        .collect();
    for name in names.iter().chain([&naming.index()]) {
        let path = conversion.output.with_file_name(name);
        conversion.check_output(&path)?;
        check_file(&path, conversion.replace)?;
    }
    job.begin(conversion.tensor_bytes());
    let staging = Staging::beside(conversion.output)?;
    let mut len_bytes = 0;
    for (plan, name) in plans.iter().zip(&names) {
        len_bytes += make(plan, &staging.path(name), conversion)?;
    }
    let files = plans.iter().zip(&names).flat_map(|(plan, file)| {
        let own = &tensors[plan.tensors.clone()];
        own.iter()
            .map(|tensor| (tensor.name.as_str(), file.as_str()))
    });
    let text = index(conversion.tensor_bytes(), files);
    len_bytes += text.len() as u64;
    names.push(naming.index());
    let mut output = conversion.create(&staging.path(naming.index()))?;
    output.write(&text)?;
    output.finish()?;
    conversion.check_unchanged()?;
    job.publishing()?;
    Ok(Written {
        files: staging.publish(conversion.output, &names, conversion.replace)?,
        ..Written::file(conversion, len_bytes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_full_but_not_too_full() {
        assert_eq!(cut(&[3, 3, 4, 1, 20, 0, 10], 10), [0..3, 3..4, 4..5, 5..7]);
        assert_eq!(cut(&[11, 11], 10), [0..1, 1..2]);
        assert_eq!(cut(&[0, 0, 1], 0), [0..2, 2..3]);
        assert!(cut(&[], 10).is_empty());
    }

    #[test]
    fn names_of_shards_come_from_the_index() {
        let naming = |name: &str| Naming::of_index(Path::new(name)).unwrap();
        let model = naming("x/model.safetensors.index.json").unwrap();
        assert_eq!(model.shard(0, 12), "model-00001-of-00012.safetensors");
        assert_eq!(model.index(), "model.safetensors.index.json");
        let packed = naming("a.b.zstn.index.json").unwrap();
        assert_eq!(packed.shard(1, 2), "a.b-00002-of-00002.zstn");
        assert!(naming("model.safetensors").is_none());
        for name in ["m.index.json", "m.gauss.index.json"] {
            assert!(Naming::of_index(Path::new(name)).is_err(), "{name}");
        }
        assert_eq!(Naming::of_model().index(), model.index());
        assert_eq!(Naming::of_model().single(), "model.safetensors");
    }
}
