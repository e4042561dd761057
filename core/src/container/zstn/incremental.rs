//! Packs a safetensors file tensor by tensor, for callers that do their own
//! reads and writes, such as a web page, a stream or a server.
//!
//! The result is identical to that of [`super::pack`]. Finding aliases does not
//! require a second read of the file: a tensor whose length occurs more than
//! once is hashed while it is in memory, and tensors come in file order, so an
//! equal tensor has been seen before.
//!
//! A file of another format is opened first, and then packed with a virtual header. A
//! build without these formats takes the virtual header from its caller
//! ([`IncrementalPacker::describe`]).
//!
//! If extension frames are allowed, the version of the file is only known at
//! the end: see [`IncrementalPacker::prefix`].

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
#[cfg(feature = "virtual-headers")]
use alloc::string::String;
use alloc::vec::Vec;
use core::mem;
use core::ops::Range;

use super::integrity::FrameDigests;
#[cfg(feature = "virtual-headers")]
use super::virtual_header::VirtualHeader;
use super::{
    ContainerBuilder, ContainerOptions, ContainerStart, EntryCodings, IndexRecord, MAGIC,
    RecordContent, StoredFrame, single_frame,
};
use crate::bytes::{index, part};
#[cfg(feature = "virtual-headers")]
use crate::catalog::{FileCatalog, FileOpener, is_other_format};
use crate::container::safetensors::{self, HeaderTensor, PREFIX_BYTES};
use crate::container::{FileHead, VERSION_OFFSET_BYTES, model_delta};
use crate::digest::{self, Digest};
use crate::engine::PackEngine;
use crate::frame::{Edition, select};
use crate::{Error, Result, TensorRef};

/// Packs a file. The packer alternates between requesting bytes of the file and
/// returning bytes of the container:
///
/// ```text
/// while let Some(range) = packing.needs() {
///     output.write(packing.supply(engine, file.read(range))?)
/// }
/// ```
#[derive(Debug)]
pub struct IncrementalPacker {
    head: FileHead,
    /// The name of the file, or nothing.
    #[cfg(feature = "virtual-headers")]
    name: String,
    options: ContainerOptions,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    Start,
    /// A file that is not safetensors and is being opened.
    #[cfg(feature = "virtual-headers")]
    Opening(Box<Opening>),
    /// A file whose virtual header the caller has computed.
    Described {
        header: Vec<u8>,
        codings: EntryCodings,
    },
    Header,
    Tensors(Box<Tensors>),
    /// The data of a file that breaks the safetensors rules.
    Whole,
    Done {
        records: Vec<IndexRecord>,
        indexed: bool,
        prefix: Vec<u8>,
    },
}

/// A file that is being opened, and the ranges of it that have been requested and not
/// supplied.
#[cfg(feature = "virtual-headers")]
#[derive(Debug)]
struct Opening {
    opener: FileOpener,
    /// In descending order.
    needs: Vec<Range<u64>>,
}

#[derive(Debug)]
struct Tensors {
    /// The codings of the entries, if the header is virtual.
    codings: Option<EntryCodings>,
    data_start: u64,
    left: alloc::vec::IntoIter<HeaderTensor>,
    builder: ContainerBuilder,
    /// The prefix, if it is retained until its version number is known;
    /// otherwise empty.
    prefix: Vec<u8>,
    options: ContainerOptions,
    /// The lengths in bytes that occur more than once. Only tensors of these
    /// lengths can be aliases.
    repeated: BTreeSet<u64>,
    seen: BTreeMap<(u64, [u8; 32]), usize>,
}

/// The packed size of one tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackedTensor<'a> {
    /// The name of the tensor.
    pub name: &'a str,
    /// The length of the tensor in bytes.
    pub len_bytes: u64,
    /// The length in bytes of the tensor's frame, or of the frame that it
    /// shares as an alias.
    pub stored_len_bytes: u64,
    /// The name of the earlier tensor with the same bytes, whose frame this one
    /// shares.
    pub alias_of: Option<&'a str>,
}

impl IncrementalPacker {
    /// Starts to pack a file of `len_bytes`.
    #[must_use]
    pub fn new(len_bytes: u64, options: impl Into<ContainerOptions>) -> Self {
        Self {
            head: FileHead::new(len_bytes),
            #[cfg(feature = "virtual-headers")]
            name: String::new(),
            options: options.into(),
            stage: Stage::Start,
        }
    }

    /// Sets the name or path of the file, which matters for formats without a magic
    /// number ([`recognise_named`](crate::catalog::recognise_named)).
    #[cfg(feature = "virtual-headers")]
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    /// Packs the file with this virtual header, because it is not a safetensors file.
    /// `header` and `codings` are those of the file's `VirtualHeader`, which a build with
    /// its format computes. `head` contains the first bytes of the file, which are not
    /// requested again, and may be empty.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput) if packing has begun.
    pub fn describe(&mut self, head: &[u8], header: Vec<u8>, codings: EntryCodings) -> Result<()> {
        if !matches!(self.stage, Stage::Start) {
            return Err(Error::invalid_input(
                "a virtual header has to be given before the file is packed",
            ));
        }
        self.head.extend(0, head);
        self.stage = Stage::Described { header, codings };
        Ok(())
    }

    /// Returns the range of the file that is required next, or `None` when the
    /// container is complete. The range is empty if its bytes are already in
    /// memory.
    #[must_use]
    pub fn needs(&self) -> Option<Range<u64>> {
        Some(self.head.missing(&self.wanted()?))
    }

    /// Returns the name of the tensor to which the required bytes belong.
    #[must_use]
    pub fn tensor(&self) -> Option<&str> {
        match &self.stage {
            Stage::Tensors(tensors) => Some(&tensors.left.as_slice().first()?.name),
            _ => None,
        }
    }

    /// Takes the bytes of the range that [`IncrementalPacker::needs`] has
    /// returned, and returns the next bytes of the container, which may be
    /// none. After an error the packer cannot continue.
    pub fn supply<E: PackEngine>(&mut self, engine: &E, bytes: &[u8]) -> Result<Vec<u8>> {
        let Some(wanted) = self.wanted() else {
            return Err(Error::invalid_input("the file is already packed"));
        };
        let bytes = self.head.complete(&wanted, bytes.into())?;
        match mem::replace(&mut self.stage, Stage::Start) {
            Stage::Start => self.start(engine, &bytes),
            #[cfg(feature = "virtual-headers")]
            Stage::Opening(mut opening) => {
                let known = self.head.known().len() as u64;
                if wanted.start <= known && wanted.end > known {
                    self.head.extend(wanted.start, &bytes);
                }
                opening.needs.pop();
                let supplied = opening.opener.supply(wanted.start, &bytes);
                self.go_on_opening(engine, opening, supplied)
            }
            Stage::Described { header, codings } => self.start_original(engine, &header, codings),
            Stage::Header => self.header(engine, &bytes),
            Stage::Tensors(mut tensors) => {
                let mut out = tensors.next(engine, &bytes)?;
                self.go_on(tensors, &mut out)?;
                Ok(out)
            }
            Stage::Whole => {
                let header = part(self.head.known(), PREFIX_BYTES..wanted.start);
                let out = single_frame(engine, header, &bytes, &self.options)?.concat();
                self.stage = Stage::Done {
                    records: Vec::new(),
                    indexed: false,
                    prefix: Vec::new(),
                };
                Ok(out)
            }
            done @ Stage::Done { .. } => {
                self.stage = done;
                Ok(Vec::new())
            }
        }
    }

    /// Returns whether single tensors can be read from the container, that is,
    /// whether the file follows the safetensors rules. The result is valid once
    /// the container is complete.
    #[must_use]
    pub fn is_indexed(&self) -> bool {
        matches!(self.stage, Stage::Done { indexed: true, .. })
    }

    /// Returns the first bytes of the container, if the options allow extension
    /// frames. The caller must write them in front of everything that
    /// [`IncrementalPacker::supply`] has returned. Empty until the container is
    /// complete, and if `supply` has returned them already.
    #[must_use]
    pub fn prefix(&self) -> &[u8] {
        match &self.stage {
            Stage::Done { prefix, .. } => prefix,
            _ => &[],
        }
    }

    /// Returns all tensors in data order. Empty until the container is
    /// complete, and for a file that is stored as one frame.
    #[must_use]
    pub fn packed<'a>(&'a self) -> Vec<PackedTensor<'a>> {
        let Stage::Done { records, .. } = &self.stage else {
            return Vec::new();
        };
        let row = |record: &'a IndexRecord| {
            let target = match record.content {
                RecordContent::Frame(_) => record,
                RecordContent::Alias(target) => &records[target],
            };
            // The builder refuses aliases of aliases.
            let RecordContent::Frame(frame) = &target.content else {
                return None;
            };
            Some(PackedTensor {
                name: &record.name,
                len_bytes: record.span.end - record.span.start,
                stored_len_bytes: frame.end - frame.start,
                alias_of: (target.name != record.name).then_some(&*target.name),
            })
        };
        records.iter().filter_map(row).collect()
    }

    fn wanted(&self) -> Option<Range<u64>> {
        match &self.stage {
            Stage::Start => Some(self.head.first()),
            #[cfg(feature = "virtual-headers")]
            Stage::Opening(opening) => opening.needs.last().cloned(),
            Stage::Described { .. } => Some(0..0),
            Stage::Header => Some(PREFIX_BYTES..self.data_start()),
            Stage::Tensors(tensors) => {
                let span = &tensors.left.as_slice().first()?.span;
                Some(tensors.data_start + span.start..tensors.data_start + span.end)
            }
            Stage::Whole => Some(self.data_start()..self.head.len_bytes()),
            Stage::Done { .. } => None,
        }
    }

    /// Returns the offset of the data. The head must have been read and its
    /// length checked.
    fn data_start(&self) -> u64 {
        let len = safetensors::header_len_bytes(self.head.known(), self.head.len_bytes());
        PREFIX_BYTES + len.unwrap_or_default()
    }

    fn start<E: PackEngine>(&mut self, engine: &E, head: &[u8]) -> Result<Vec<u8>> {
        #[cfg(feature = "virtual-headers")]
        if is_other_format(&self.name, head, self.head.len_bytes()) {
            self.head.extend(0, head);
            return match FileOpener::named(&self.name, self.head.len_bytes(), head.to_vec()) {
                Ok(opener) => {
                    let needs = Vec::new();
                    self.go_on_opening(engine, Box::new(Opening { opener, needs }), Ok(()))
                }
                Err(_) => self.virtual_header(engine, None),
            };
        }
        #[cfg(not(feature = "virtual-headers"))]
        let _ = engine;
        if head.starts_with(&MAGIC) {
            return Err(Error::invalid_input(
                "the file is a ZSTN container: it is already packed",
            ));
        }
        if head.starts_with(&model_delta::MAGIC) {
            return Err(Error::invalid_input(
                "the file is a delta from another checkpoint: it is already packed",
            ));
        }
        safetensors::header_len_bytes(head, self.head.len_bytes())?;
        self.head.extend(0, head);
        self.stage = Stage::Header;
        Ok(Vec::new())
    }

    fn header<E: PackEngine>(&mut self, engine: &E, header: &[u8]) -> Result<Vec<u8>> {
        let data_start = self.data_start();
        let data_len = self.head.len_bytes() - data_start;
        self.head.extend(PREFIX_BYTES, header);
        let start = ContainerBuilder::start(engine, header, data_len, &self.options)?;
        let ContainerStart::Indexed {
            builder,
            mut prefix,
            tensors,
        } = start
        else {
            self.stage = Stage::Whole;
            return Ok(Vec::new());
        };
        let tensors = Tensors::new(data_start, builder, &mut prefix, tensors, self.options);
        let mut out = prefix;
        self.go_on(Box::new(tensors), &mut out)?;
        Ok(out)
    }

    /// Requests the next ranges of a file that is being opened. A file that is refused is
    /// packed as bytes.
    #[cfg(feature = "virtual-headers")]
    fn go_on_opening<E: PackEngine>(
        &mut self,
        engine: &E,
        mut opening: Box<Opening>,
        supplied: Result<()>,
    ) -> Result<Vec<u8>> {
        if opening.needs.is_empty() || supplied.is_err() {
            match supplied.and_then(|()| opening.opener.needs()) {
                Ok(mut needs) if !needs.is_empty() => {
                    needs.reverse();
                    opening.needs = needs;
                }
                Ok(_) => {
                    let catalog = opening.opener.finish(engine);
                    return self.virtual_header(engine, catalog.ok());
                }
                Err(_) => return self.virtual_header(engine, None),
            }
        }
        self.stage = Stage::Opening(opening);
        Ok(Vec::new())
    }

    /// Starts the container of a file with this catalog, or of a file that was refused.
    #[cfg(feature = "virtual-headers")]
    fn virtual_header<E: PackEngine>(
        &mut self,
        engine: &E,
        catalog: Option<FileCatalog>,
    ) -> Result<Vec<u8>> {
        let len_bytes = self.head.len_bytes();
        let described = catalog.and_then(|catalog| catalog.virtual_header().ok());
        let header = match described {
            Some(header) => header,
            None => VirtualHeader::of_bytes(len_bytes)?,
        };
        self.start_original(engine, header.json(), header.codings().clone())
    }

    /// Starts the container of a file with this virtual header.
    fn start_original<E: PackEngine>(
        &mut self,
        engine: &E,
        header: &[u8],
        codings: EntryCodings,
    ) -> Result<Vec<u8>> {
        let len_bytes = self.head.len_bytes();
        let start = ContainerBuilder::start_virtual(engine, header, len_bytes, &self.options)?;
        let ContainerStart::Indexed {
            builder,
            mut prefix,
            tensors,
        } = start
        else {
            return Err(Error::invalid_input("a virtual header has an index"));
        };
        let mut tensors = Tensors::new(0, builder, &mut prefix, tensors, self.options);
        tensors.codings = Some(codings);
        let mut out = prefix;
        self.go_on(Box::new(tensors), &mut out)?;
        Ok(out)
    }

    /// Advances to the next tensor or, after the last one, to the end.
    fn go_on(&mut self, mut tensors: Box<Tensors>, out: &mut Vec<u8>) -> Result<()> {
        if tensors.left.as_slice().is_empty() {
            let records = tensors.builder.records().to_vec();
            let mut prefix = mem::take(&mut tensors.prefix);
            let end = tensors.builder.finish()?;
            out.extend_from_slice(&end.bytes);
            if let Some(version) = prefix.get_mut(index(VERSION_OFFSET_BYTES)) {
                *version = end.version;
            }
            self.stage = Stage::Done {
                records,
                indexed: true,
                prefix,
            };
        } else {
            self.stage = Stage::Tensors(tensors);
        }
        Ok(())
    }
}

impl Tensors {
    /// Prepares the packing of tensors. Takes the `prefix` if it is written last.
    fn new(
        data_start: u64,
        builder: ContainerBuilder,
        prefix: &mut Vec<u8>,
        tensors: Vec<HeaderTensor>,
        options: ContainerOptions,
    ) -> Self {
        let mut lens = BTreeSet::new();
        let repeated = tensors
            .iter()
            .map(|tensor| tensor.span.end - tensor.span.start)
            .filter(|len| !lens.insert(*len))
            .collect();
        Self {
            codings: None,
            data_start,
            left: tensors.into_iter(),
            builder,
            prefix: match options.encode.is_extended() {
                true => mem::take(prefix),
                false => Vec::new(),
            },
            options,
            repeated,
            seen: BTreeMap::new(),
        }
    }

    /// Returns a tensor as the encoder takes it.
    fn content<'t>(&self, tensor: &'t HeaderTensor, bytes: &'t [u8]) -> TensorRef<'t> {
        match &self.codings {
            Some(codings) => codings.content(tensor, bytes),
            None => TensorRef::new(bytes, tensor.dtype, &tensor.shape),
        }
    }

    fn next<E: PackEngine>(&mut self, engine: &E, bytes: &[u8]) -> Result<Vec<u8>> {
        let Some(tensor) = self.left.next() else {
            return Ok(Vec::new());
        };
        self.builder.original(bytes);
        let has_integrity = self.options.has_integrity;
        let is_repeated = self.repeated.contains(&(bytes.len() as u64));
        let digest = (is_repeated || has_integrity).then(|| digest::of_pieces([bytes]));
        let earlier = digest.filter(|_| is_repeated);
        if let Some(target) = earlier.and_then(|digest| self.earlier(bytes, digest)) {
            self.builder.alias(tensor.name, tensor.span, target)?;
            return Ok(Vec::new());
        }
        let content = self.content(&tensor, bytes);
        let frame = select::encode(engine, content, self.options.encode);
        let digests = digest
            .filter(|_| has_integrity)
            .map(|digest| FrameDigests::with_digest(engine, digest, &frame))
            .map(|digests| self.options.described(engine, content, digests));
        let stored = StoredFrame {
            len_bytes: frame.len() as u64,
            edition: Edition::of_frame(&frame),
            digests,
        };
        self.builder.frame(tensor.name, tensor.span, stored);
        Ok(frame)
    }

    /// Returns the number of the earlier tensor with the same bytes, if there
    /// is one.
    fn earlier(&mut self, bytes: &[u8], digest: Digest) -> Option<usize> {
        let number = self.builder.records().len();
        let seen = self.seen.entry((bytes.len() as u64, digest));
        let first = *seen.or_insert(number);
        (first != number).then_some(first)
    }
}
