//! Verifies checkpoints.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use zstn_core::catalog::{FileKind, IndexName, kind_of_name, recognise_named};
use zstn_core::limits::HEAD_LEN_BYTES;

use crate::delta::BaseFile;
use crate::report::{VerifiedFile, VerifyReport};
use crate::shards::{BASES, PACKED, PLAIN, Shard, Shards, verify_shards};
use crate::source::{Input, Local, Location, Source};
use crate::{Error, Job, Reader, Result, View};

mod confirm;
mod files;
mod tensors;
mod virtual_header;

pub(crate) use files::verify_file;

/// Options for [`verify`].
#[derive(Debug, Clone, Default)]
#[must_use]
pub struct VerifyOptions {
    bases: Vec<Input>,
    original: Option<Input>,
    view: View,
    confirm: bool,
    fast: bool,
}

impl VerifyOptions {
    /// Reads a delta with the base that it was packed against, plain or packed. If the
    /// base is a delta itself, the next call adds the base's own base, and so on. If it was
    /// packed against several bases, the next call adds the next of them.
    pub fn base(mut self, base: impl Into<Input>) -> Self {
        self.bases.push(base.into());
        self
    }

    /// Compares every byte with `original`: the file that a packed file restores, or
    /// for other formats a model with the same tensors.
    pub fn original(mut self, original: impl Into<Input>) -> Self {
        self.original = Some(original.into());
        self
    }

    /// Selects how weights that are stored in several tensors are read; the default is
    /// [`View::Dense`].
    pub fn view(mut self, view: View) -> Self {
        self.view = view;
        self
    }

    /// Records in the packed file that its SHA-256, which was claimed when it was packed
    /// ([`PackOptions::sha256`](crate::PackOptions::sha256)), has been compared with the
    /// restored bytes. The file is then the same as if the packer had computed the digest.
    /// If the digest is not claimed, the file is left as it is.
    ///
    /// The input must be a single packed file at a path. It is replaced by a copy, so
    /// the folder needs space for one.
    pub fn confirm(mut self, confirm: bool) -> Self {
        self.confirm = confirm;
        self
    }

    /// Leaves out the digest of the restored file as a whole, usually its SHA-256, which
    /// one thread computes. Everything else is still compared, on all threads: in a file
    /// with checksums, they cover every stored byte, and every tensor has its own digest.
    /// A delta whose tensors share bytes is compared as a whole nevertheless.
    ///
    /// This cannot be combined with [`VerifyOptions::confirm`].
    pub fn fast(mut self, fast: bool) -> Self {
        self.fast = fast;
        self
    }
}

/// Verifies a checkpoint of any supported format, in one file or several: decodes
/// everything and discards the decoded bytes.
///
/// Every byte is compared with the digests in the files, and with the original if
/// [`VerifyOptions::original`] was called. A packed file without digests is only
/// decoded if there is no original; damage inside stored planes then stays undetected.
///
/// Files that were copied into a packed folder have no digests. They are compared if
/// the original is a folder too, and are listed in [`VerifyReport::unchecked_files`]
/// otherwise. In a local folder with a model that is not packed, so are the model files
/// that do not belong to it.
///
/// # Errors
/// Damage; [`Error::Differs`] if the original differs; [`Error::NeedsBase`] for a delta
/// without its base; every error of opening the input.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # std::env::set_current_dir(&folder)?;
/// # let header = br#"{"x":{"dtype":"U8","shape":[3],"data_offsets":[0,3]}}"#;
/// # let len = (header.len() as u64).to_le_bytes();
/// # std::fs::write("model.safetensors", [&len[..], header, &[1, 2, 3]].concat())?;
/// # zstn::pack(&zstn::Job::new(), "model.safetensors", "model.zstn", &Default::default())?;
/// use zstn::{Job, VerifyOptions};
///
/// let options = VerifyOptions::default().original("model.safetensors");
/// let report = zstn::verify(&Job::new(), "model.zstn", &options)?;
/// assert!(report.compared && report.has_digests());
/// # Ok(())
/// # }
/// ```
pub fn verify(job: &Job, input: impl Into<Input>, options: &VerifyOptions) -> Result<VerifyReport> {
    let input = &input.into();
    job.run(|job| {
        let report = options.verify(job, input)?;
        job.ensure_running()?;
        Ok(report)
    })
}

impl VerifyOptions {
    fn verify(&self, job: &Job, input: &Input) -> Result<VerifyReport> {
        if self.confirm {
            if !self.fast {
                return self.confirm_file(job, input);
            }
            return Err(Error::Usage(
                "confirming compares the SHA-256 of the file, which a fast verification leaves \
                 out: use one of the two"
                    .into(),
            ));
        }
        if let Some(shards) = packed_shards(job, input)? {
            return self.verify_shards(job, &shards);
        }
        let is_several = |location: &Location| location.is_folder() || location.is_index();
        if input.location().is_some_and(is_several) {
            return self.verify_model(job, input);
        }
        let input = &input.rewindable(&job.http)?;
        // A packed file is fetched completely; other files are read by range.
        match is_packed(&*input.open(&job.http)?)? {
            true => self.verify_file(job, input),
            false => self.verify_model(job, input),
        }
    }

    fn verify_shards(&self, job: &Job, input: &Shards) -> Result<VerifyReport> {
        let original = self.original.as_ref();
        let open = |original: &Input| Shards::open_counterpart(original, PLAIN, &job.http);
        let original = original.map(open);
        let bases = Shards::open_counterparts(&self.bases, BASES, &job.http)?;
        verify_shards(
            job,
            input,
            &bases,
            original.transpose()?.as_ref(),
            self.fast,
        )
    }

    /// Verifies a file that restores another file byte for byte.
    fn verify_file(&self, job: &Job, input: &Input) -> Result<VerifyReport> {
        let local = input.fetch_packed(&job.http, job)?;
        Ok(self.report(self.verify_local(job, &local)?))
    }

    fn verify_local(&self, job: &Job, local: &Local) -> Result<VerifiedFile> {
        let original = self.original.as_ref();
        let original = original.map(|original| original.fetch(&job.http, job));
        let original = original.transpose()?;
        let base = BaseFile::of_delta(job, local, &self.bases)?;
        verify_file(job, local, base.as_deref(), original.as_deref(), self.fast)
    }

    /// Returns the report on a file that restores another file byte for byte.
    fn report(&self, file: VerifiedFile) -> VerifyReport {
        VerifyReport {
            files: vec![file],
            compared: self.original.is_some(),
            identical: self.original.is_some(),
            indexed_tensors: 0,
            missing_tensors: Vec::new(),
            unchecked_files: Vec::new(),
        }
    }

    /// Verifies a container at a path, and records that its SHA-256 has been compared.
    fn confirm_file(&self, job: &Job, input: &Input) -> Result<VerifyReport> {
        if let Some(Location::Path(path)) = input.location()
            && path.is_file()
        {
            let local = input.fetch(&job.http, job)?;
            if kind(&*local)? == FileKind::Zstn {
                let mut file = self.verify_local(job, &local)?;
                file.is_confirmed = confirm::confirm(job, &local, path)?;
                return Ok(self.report(file));
            }
        }
        Err(Error::Usage(
            "only a single .zstn file at a path can record that its SHA-256 has been compared; \
             verify other inputs without that"
                .into(),
        ))
    }

    /// Verifies the tensors of a model in another format.
    fn verify_model(&self, job: &Job, input: &Input) -> Result<VerifyReport> {
        let original = self.original.as_ref();
        let original = original.map(|original| job.open(original, &[], self.view));
        let original = original.transpose()?;
        let reader = job.open(input, &self.bases, self.view)?;
        let file = tensors::verify_tensors(job, &reader, original.as_ref())?;
        Ok(VerifyReport {
            files: vec![file],
            compared: original.is_some(),
            // The headers and formats of the files may differ.
            identical: false,
            indexed_tensors: 0,
            missing_tensors: Vec::new(),
            unchecked_files: match input.location() {
                Some(location) => others(location, &reader)?,
                None => Vec::new(),
            },
        })
    }
}

/// Returns the model files in a local folder that do not belong to the opened model.
/// Subfolders are not searched.
fn others(folder: &Location, reader: &Reader) -> Result<Vec<PathBuf>> {
    let Location::Path(folder) = folder else {
        return Ok(Vec::new());
    };
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let refuse = |error| Error::io(format!("list {}", folder.display()), error);
    let opened = reader.all_sources().map(|source| Path::new(source.name()));
    let opened: Vec<&OsStr> = opened.filter_map(Path::file_name).collect();
    let mut others = Vec::new();
    for entry in fs::read_dir(folder).map_err(refuse)? {
        let name = entry.map_err(refuse)?.file_name();
        let is_model = name
            .to_str()
            .is_some_and(|name| kind_of_name(name).is_some() && IndexName::parse(name).is_none());
        if is_model && !opened.contains(&&*name) {
            others.push(name.into());
        }
    }
    others.sort();
    Ok(others)
}

/// Opens the input if it is a packed, sharded checkpoint. In a folder of packed
/// files, a plain index that is broken or whose files are missing may be one that
/// could not be packed, and a file of another format may be a copy; the folder is then
/// opened by its packed files.
fn packed_shards(job: &Job, input: &Input) -> Result<Option<Shards>> {
    let http = &job.http;
    let kinds = [PACKED, FileKind::FILES].concat();
    let found = Shards::open_input(input, &kinds, http);
    let is_plain = |file: &Shard| match &file.location {
        Location::Path(path) => {
            path.is_file() && kind_of_name(&file.name) == Some(FileKind::Safetensors)
        }
        _ => true,
    };
    match &found {
        Ok(Some(shards)) if shards.is_packed() => return found,
        Ok(Some(found)) if !found.is_folder() || found.files().iter().all(is_plain) => {
            return Ok(None);
        }
        Ok(None) => return Ok(None),
        Ok(Some(_)) | Err(_) => {}
    }
    match Shards::open_input(input, PACKED, http) {
        Ok(Some(packed)) if packed.is_packed() => Ok(Some(packed)),
        _ => found.map(|_| None),
    }
}

/// Returns whether the file restores another file byte for byte.
fn is_packed(source: &dyn Source) -> Result<bool> {
    Ok(matches!(kind(source)?, FileKind::Zstn | FileKind::Delta))
}

fn kind(source: &dyn Source) -> Result<FileKind> {
    let len = source.len_bytes();
    let head = source.read(0..len.min(HEAD_LEN_BYTES))?;
    recognise_named(source.name(), &head, len).map_err(Error::place(source.name()))
}
