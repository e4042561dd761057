//! Several safetensors files as the one file that is the base of deltas
//! (docs/formats/zstn-delta.md 8).

use std::ops::Range;
use std::sync::Arc;

use zstn_core::bytes::index;
use zstn_core::catalog::FileKind;
use zstn_core::container::safetensors::ShardIndex;
use zstn_core::model::{ModelBuilder, Piece, StoredPart, Unpacked};

use super::{Local, Source};
use crate::catalog::open_catalog;
use crate::{Engine, Error, Result};

/// The files, and their place in the one file.
#[derive(Debug)]
pub(super) struct Joined {
    layout: Unpacked,
    files: Vec<Arc<Local>>,
    /// The file of each tensor, and the offset in it.
    places: Vec<(usize, u64)>,
}

impl Joined {
    /// Joins the files of the model called `name`, in the order of its `shards` if it has
    /// an index.
    ///
    /// # Errors
    /// A file that is not safetensors or is refused; I/O errors.
    pub(super) fn new(
        engine: &Engine,
        name: &str,
        files: Vec<Arc<Local>>,
        shards: Option<&ShardIndex>,
    ) -> Result<Self> {
        let mut catalogs = Vec::with_capacity(files.len());
        for file in &files {
            let catalog = open_catalog(engine, &**file)?;
            if catalog.kind() != FileKind::Safetensors {
                return Err(Error::Usage(format!(
                    "{} cannot be a part of a base: that is a safetensors file, or a .zstn or \
                     .z4dm file that restores one",
                    file.name()
                )));
            }
            catalogs.push(catalog);
        }
        let model = ModelBuilder::new(catalogs, shards, None);
        let model = model.and_then(|builder| builder.finish(engine));
        let model = model.map_err(Error::place(name))?;
        let layout = model.joined().map_err(Error::place(name))?;
        let place = |part: &StoredPart| (part.file, part.stored.start);
        let tensors = model.tensors().iter();
        let places = tensors.map(|tensor| tensor.parts.first().map_or((0, 0), place));
        Ok(Self {
            places: places.collect(),
            layout,
            files,
        })
    }

    /// Returns the data of the one file, without its header.
    pub(super) fn data(&self) -> Self {
        Self {
            layout: self.layout.clone().without_head(),
            files: self.files.clone(),
            places: self.places.clone(),
        }
    }

    pub(super) fn files(&self) -> &[Arc<Local>] {
        &self.files
    }

    pub(super) fn len_bytes(&self) -> u64 {
        self.layout.len_bytes()
    }

    /// Reads the bytes from the offset `start`, which are inside the file.
    pub(super) fn read_into(&self, start: u64, mut out: &mut [u8]) -> Result<()> {
        for piece in self
            .layout
            .pieces(start..start.saturating_add(out.len() as u64))
        {
            let (part, rest) = out.split_at_mut(len_of(&piece));
            match piece {
                Piece::Head(range) => part.copy_from_slice(&self.layout.head()[range]),
                Piece::Tensor { number, bytes } => {
                    let (file, offset) = self.places[number];
                    self.files[file].read_into(offset + bytes.start, part)?;
                }
            }
            out = rest;
        }
        Ok(())
    }

    /// Passes on the advice of [`Local::will_need`].
    pub(super) fn will_need(&self, range: Range<u64>) {
        for piece in self.layout.pieces(range) {
            if let Piece::Tensor { number, bytes } = piece {
                let (file, offset) = self.places[number];
                self.files[file].will_need(offset + bytes.start..offset + bytes.end);
            }
        }
    }
}

fn len_of(piece: &Piece) -> usize {
    match piece {
        Piece::Head(range) => range.len(),
        Piece::Tensor { bytes, .. } => index(bytes.end - bytes.start),
    }
}
