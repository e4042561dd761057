//! Options for conversions.

use super::GaussWatch;
use crate::source::{HttpOptions, Input};
use crate::{Progress, View};

/// Options for [`convert`](crate::convert()).
#[derive(Clone)]
#[must_use]
pub struct ConvertOptions<'a> {
    pub(super) bases: Vec<Input>,
    pub(super) http: HttpOptions,
    pub(super) view: View,
    pub(super) memory_bytes: u64,
    pub(super) shard_bytes: u64,
    pub(super) extended: bool,
    pub(super) progress: &'a dyn Progress,
    pub(super) gauss: &'a dyn GaussWatch,
}

impl Default for ConvertOptions<'_> {
    fn default() -> Self {
        Self {
            bases: Vec::new(),
            http: HttpOptions::default(),
            view: View::default(),
            memory_bytes: 1 << 30,
            shard_bytes: 5 << 30,
            extended: false,
            progress: &(),
            gauss: &(),
        }
    }
}

impl<'a> ConvertOptions<'a> {
    /// Reads a delta with the base that it was packed against, plain or packed. If the
    /// base is a delta itself, the next call adds the base's own base, and so on.
    pub fn base(mut self, base: impl Into<Input>) -> Self {
        self.bases.push(base.into());
        self
    }

    /// Selects how weights that are stored in several tensors are read; the default is
    /// [`View::Dense`].
    pub fn view(mut self, view: View) -> Self {
        self.view = view;
        self
    }

    /// Sets the approximate limit for memory in bytes; the default is 1 GiB. The
    /// largest tensor must fit into memory in any case. The limit never changes the
    /// output.
    pub fn memory_bytes(mut self, memory_bytes: u64) -> Self {
        self.memory_bytes = memory_bytes;
        self
    }

    /// Sets the maximum total length of the tensors in a file, if the output is a
    /// sharded checkpoint; the default is 5 GiB. A tensor is never split.
    pub fn shard_bytes(mut self, shard_bytes: u64) -> Self {
        self.shard_bytes = shard_bytes;
        self
    }

    /// Sets whether a ZSTN file gets extension frames
    /// ([`PackOptions::extended`](crate::PackOptions::extended)); the default is false.
    /// Without this option, an input with extension frames becomes a file that z4ai can
    /// read.
    pub fn extended(mut self, extended: bool) -> Self {
        self.extended = extended;
        self
    }

    /// Sets time limits, retries and headers for requests to addresses: of the input,
    /// of its bases and of their other files.
    pub fn http(mut self, http: HttpOptions) -> Self {
        self.http = http;
        self
    }

    /// Sets the progress that watches the work.
    pub fn progress<'b>(self, progress: &'b dyn Progress) -> ConvertOptions<'b>
    where
        'a: 'b,
    {
        ConvertOptions { progress, ..self }
    }

    /// Sets the watch that is called for each tensor of a Gauss file.
    pub fn gauss<'b>(self, gauss: &'b dyn GaussWatch) -> ConvertOptions<'b>
    where
        'a: 'b,
    {
        ConvertOptions { gauss, ..self }
    }
}
