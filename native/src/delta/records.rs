//! Packs a checkpoint as a delta: codes every tensor as a record that refers to the
//! tensor of the base, if that makes it smaller.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use zstn_core::bytes::index;
use zstn_core::catalog::BaseUse;
use zstn_core::container::model_delta::{
    BaseHeader, DeltaPacker, Pairs, RecordInfo, ShortDigest, TargetHash, code_content, shortened,
    version,
};
use zstn_core::container::safetensors::{HeaderTensor, PREFIX_BYTES, header_len_bytes};
use zstn_core::container::zstn::ContainerOptions;
use zstn_core::container::zstn::virtual_header::VirtualHeader;
use zstn_core::frame::Edition;

use super::counterparts::base_of_original;
use super::{BaseFile, base_header, data_digest, safetensors_head};
use crate::finished_tensor::{self, FinishedTensor};
use crate::pack::pipeline::{Coded, Pipeline, Record, RecordCoder, RecordList};
use crate::pack::{Aliases, Data, Packed, Plain, content};
use crate::report::Storage;
use crate::source::{Local, Source};
use crate::{Error, Job, Output, PackOptions, Progress as _, Result};

/// Codes tensors as records of a delta.
pub(super) struct DeltaCoder<'a> {
    pub(super) job: &'a Job<'a>,
    /// The job for steps that are not reported.
    pub(super) quiet: &'a Job<'a>,
    /// The data of the file that is packed.
    pub(super) target: Data<'a>,
    pub(super) base: &'a Local,
    pub(super) pairs: &'a Pairs,
    /// The virtual header, if the file is not a safetensors file.
    pub(super) virtual_header: Option<&'a VirtualHeader>,
    pub(super) options: ContainerOptions,
    /// The tensor of the base that has been hashed last, and its digest. Several tensors
    /// of the target may refer to one tensor.
    pub(super) hashed: Mutex<Option<(Range<u64>, ShortDigest)>>,
}

impl RecordCoder for DeltaCoder<'_> {
    type Entry = RecordInfo;

    /// The shares are for the tensors, the tensors of the base, the deltas, two coded
    /// forms, and the records that are being written.
    const MEMORY_SHARES: u64 = 6;

    fn code(&self, tensor: &HeaderTensor, bytes: &[u8]) -> Result<Coded<RecordInfo>> {
        let pair = self.pairs.get(tensor);
        let of_base = pair.map(|pair| self.base.read(pair.range())).transpose()?;
        let coded = code_content(
            &self.job.engine,
            tensor,
            content(self.virtual_header, tensor, bytes),
            pair.zip(of_base.as_deref()),
            self.options.encode,
        );
        let coded = coded.map_err(Error::place(self.target.input.name()))?;
        let coded = match pair {
            Some(pair) => coded.with_source(pair, || self.digest_of_base(&pair.tensor))?,
            None => coded,
        };
        let payload_len = index(coded.info.payload_len_bytes);
        let payload = &coded.record[coded.record.len() - payload_len..];
        self.report(tensor, coded.info, payload);
        Ok(Coded {
            bytes: coded.record,
            edition: coded.edition,
            entry: coded.info,
        })
    }

    fn write_large(
        &self,
        tensor: &HeaderTensor,
        _: u64,
        output: &mut Output,
    ) -> Result<Record<RecordInfo>> {
        let record = self.write_large_record(tensor, output)?;
        // The payload is not in memory, so its frame cannot be described.
        self.report(tensor, record.entry, &[]);
        Ok(record)
    }
}

impl DeltaCoder<'_> {
    /// Returns the digest of the base's tensor in this range of its file.
    pub(super) fn digest_of_base(&self, range: &Range<u64>) -> Result<ShortDigest> {
        let hashed = || self.hashed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, digest)) = hashed().as_ref().filter(|(last, _)| last == range) {
            return Ok(*digest);
        }
        let digest = shortened(&Data::new(self.quiet, self.base, 0).digest(range)?);
        *hashed() = Some((range.clone(), digest));
        Ok(digest)
    }

    /// Reports a coded tensor to the progress.
    fn report(&self, tensor: &HeaderTensor, info: RecordInfo, payload: &[u8]) {
        if self.job.wants_tensors() {
            let storage = finished_tensor::record(info.kind, payload);
            let tensor = FinishedTensor::new(tensor, storage, info.payload_len_bytes);
            self.job.tensor(&tensor);
        }
    }
}

/// The records of a delta that have been written so far.
struct DeltaRecords {
    infos: Vec<RecordInfo>,
    edition: Edition,
    /// The hash of the file whose tensors these are.
    hash: TargetHash,
    /// The offset at which the next record begins.
    position: u64,
}

impl RecordList for DeltaRecords {
    type Entry = RecordInfo;
    type Hash = TargetHash;

    fn position(&self) -> u64 {
        self.position
    }

    fn version(&self) -> u8 {
        version(self.edition)
    }

    fn take_hash(&mut self) -> Option<TargetHash> {
        Some(std::mem::take(&mut self.hash))
    }

    fn set_hash(&mut self, hash: TargetHash) {
        self.hash = hash;
    }

    fn add(&mut self, _: &HeaderTensor, record: Record<RecordInfo>) {
        self.infos.push(record.entry);
        self.edition = self.edition.max(record.edition);
        self.position += record.len_bytes;
    }

    fn add_alias(&mut self, tensor: &HeaderTensor, _: usize) -> Result<()> {
        let detail = "a delta has no aliases";
        Err(zstn_core::Error::invalid_input(detail)
            .tensor(&tensor.name)
            .into())
    }
}

impl DeltaRecords {
    fn count(&self, base: Option<BaseUse>) -> usize {
        let uses = self.infos.iter().map(|info| BaseUse::of(info.kind));
        uses.filter(|of_base| *of_base == base).count()
    }
}

/// Writes the delta from the safetensors file `base` to the safetensors file `plain`.
pub(crate) fn write(
    job: &Job,
    plain: Plain<'_>,
    base: &BaseFile,
    output: &mut Output,
    options: &PackOptions,
) -> Result<Packed> {
    let target = plain.input;
    let refuse = Error::place(target.name());
    let base_header = base_header(base)?;
    let head = safetensors_head(target)?;
    let header_len = header_len_bytes(&head, target.len_bytes()).map_err(&refuse)?;
    let data_start = PREFIX_BYTES + header_len;
    let json = zstn_core::bytes::part(&head, PREFIX_BYTES..data_start).to_vec();
    drop(head);
    let packing = DeltaPacker::new(json, target.len_bytes()).map_err(&refuse)?;
    let data = Data::new(job, target, data_start).arriving(plain.arriving);
    let target = Target {
        packing: &packing,
        data,
        virtual_header: None,
    };
    write_records(job, target, (base, &base_header), output, options)
}

/// Writes the delta from `base`, a file of any format, to a file that is not safetensors and
/// has this virtual header (docs/formats/zstn-delta.md 6).
///
/// # Errors
/// A base that is refused, or is not a model file.
pub(crate) fn write_original(
    job: &Job,
    (target, header): (&Local, &VirtualHeader),
    base: &BaseFile,
    output: &mut Output,
    options: &PackOptions,
) -> Result<Packed> {
    let packing = DeltaPacker::of_original(header.json().to_vec(), target.len_bytes())
        .map_err(Error::place(target.name()))?;
    let entries = (target, packing.tensors());
    let (file, base_header) = base_of_original(job, entries, base.file())?;
    let base = &BaseFile::from(file);
    let target = Target {
        packing: &packing,
        data: Data::new(job, target, 0),
        virtual_header: Some(header),
    };
    let packed = write_records(job, target, (base, &base_header), output, options)?;
    Ok(Packed {
        tensors: header.tensor_count(),
        ..packed
    })
}

/// The file that is packed as a delta.
struct Target<'a> {
    packing: &'a DeltaPacker,
    data: Data<'a>,
    virtual_header: Option<&'a VirtualHeader>,
}

/// Writes the delta from `base`, whose tensors are in `base_header`, to `target`.
fn write_records(
    job: &Job,
    target: Target<'_>,
    (base, base_header): (&BaseFile, &BaseHeader),
    output: &mut Output,
    options: &PackOptions,
) -> Result<Packed> {
    let Target {
        packing,
        data,
        virtual_header,
    } = target;
    let tensors = packing.tensors();
    let lens = tensors.iter().map(|t| t.span.end - t.span.start);
    job.begin(lens.sum());
    let digest = data_digest(job, base, base_header)?;
    let prefix = packing.prefix(Edition::Plain, digest);
    let prefix = prefix.map_err(Error::place(data.input.name()))?;
    let quiet = job.quiet();
    let is_extended = options.container.encode.is_extended();
    let pairs = packing.pairs(base_header, options.container.encode);
    let pipeline = Pipeline {
        job,
        data,
        tensors,
        coder: &DeltaCoder {
            job,
            quiet: &quiet,
            target: data,
            base,
            pairs: &pairs,
            virtual_header,
            options: options.container,
            hashed: Mutex::new(None),
        },
        latest_version: is_extended.then(|| version(pairs.edition())),
    };
    let mut records = DeltaRecords {
        infos: Vec::with_capacity(tensors.len()),
        edition: Edition::Plain,
        hash: packing.target_hash(),
        position: prefix.len() as u64,
    };
    let mut aliases = Aliases::none(tensors.len());
    pipeline.run(&prefix, &mut aliases, &mut records, output)?;
    let storage = Storage::Delta {
        copied: records.count(Some(BaseUse::Copy)),
        differing: records.count(Some(BaseUse::Delta)),
        whole: records.count(None),
    };
    let target_digest = records.hash.finish();
    let position = records.position;
    let trailer = match base.mixes() {
        Some(mixes) => packing.mixed_trailer((base_header, mixes), records.infos, target_digest),
        None => packing.trailer(base_header, records.infos, target_digest),
    };
    output.write_final(&trailer)?;
    Ok(Packed {
        len_bytes: position + trailer.len() as u64,
        tensors: tensors.len(),
        storage,
    })
}
