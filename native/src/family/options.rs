//! Options for choosing a base.

use crate::Progress;
use crate::source::{HttpOptions, Location};

/// Options for [`choose`](super::choose).
#[derive(Clone)]
#[must_use]
pub struct FamilyOptions<'a> {
    pub(super) extended: bool,
    pub(super) save_sketches: bool,
    pub(super) excluded: Vec<Location>,
    pub(super) http: HttpOptions,
    pub(super) progress: &'a dyn Progress,
}

impl Default for FamilyOptions<'_> {
    fn default() -> Self {
        Self {
            extended: false,
            save_sketches: false,
            excluded: Vec::new(),
            http: HttpOptions::default(),
            progress: &(),
        }
    }
}

impl<'a> FamilyOptions<'a> {
    /// Sets whether the result may have extension frames, which make deltas smaller;
    /// the default is false. Sketches do not show how much such frames save without a
    /// base, so [`Choice::plain`](super::Choice::plain) does not include them.
    pub fn extended(mut self, extended: bool) -> Self {
        self.extended = extended;
        self
    }

    /// Sets whether new sketches of members of a local family are saved in the same
    /// folder; the default is false. These sketches include digests of all tensors, so
    /// every plain member is read in full once.
    pub fn save_sketches(mut self, save: bool) -> Self {
        self.save_sketches = save;
        self
    }

    /// Excludes a checkpoint in all of its forms; the next call excludes another one.
    /// Checkpoints that are packed together should exclude each other: two deltas that
    /// need each other as bases could not be read.
    pub fn exclude(mut self, checkpoint: impl Into<Location>) -> Self {
        self.excluded.push(checkpoint.into());
        self
    }

    /// Sets time limits, retries and headers for requests to addresses.
    pub fn http(mut self, http: HttpOptions) -> Self {
        self.http = http;
        self
    }

    /// Sets the progress that watches the work.
    pub fn progress<'b>(self, progress: &'b dyn Progress) -> FamilyOptions<'b>
    where
        'a: 'b,
    {
        FamilyOptions { progress, ..self }
    }
}
