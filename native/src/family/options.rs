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
    /// Sets whether the result may have extended frames, which make differences
    /// smaller; by default not. Sketches do not show what such frames save without a
    /// base, so [`Choice::plain`](super::Choice::plain) is without them.
    pub fn extended(mut self, extended: bool) -> Self {
        self.extended = extended;
        self
    }

    /// Sets whether sketches that are made of members of a local family are saved
    /// next to them, by default they are not. Tensors are digested then, so every
    /// plain member is read whole once.
    pub fn save_sketches(mut self, save: bool) -> Self {
        self.save_sketches = save;
        self
    }

    /// Excludes a checkpoint in all its forms; the next call excludes another one. What
    /// is packed together is excluded from each other's bases: two differences that
    /// need each other could not be read.
    pub fn exclude(mut self, checkpoint: impl Into<Location>) -> Self {
        self.excluded.push(checkpoint.into());
        self
    }

    /// Sets time limits, retries and headers for the addresses that are read.
    pub fn http(mut self, http: HttpOptions) -> Self {
        self.http = http;
        self
    }

    /// Sets what watches the work.
    pub fn progress<'b>(self, progress: &'b dyn Progress) -> FamilyOptions<'b>
    where
        'a: 'b,
    {
        FamilyOptions { progress, ..self }
    }
}
