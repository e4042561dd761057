//! A checkpoint that is the base of deltas, in one or several files.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use zstn_core::catalog::{FileKind, recognise};
use zstn_core::container::model_delta::{self, DeltaPacker, Mixes};
use zstn_core::container::safetensors::{PREFIX_BYTES, ShardIndex};
use zstn_core::limits::HEAD_LEN_BYTES;
use zstn_core::model::{Model, ModelBuilder};

use super::safetensors_head;
use crate::catalog::open_catalog;
use crate::shards::{Shard, Shards, stem};
use crate::source::parallel::{self, FILES_AT_ONCE};
use crate::source::{HttpOptions, Input, Local, Source};
use crate::{Error, Job, Progress as _, Result};

/// A checkpoint that is a base.
pub(super) struct Base {
    pub(super) name: String,
    pub(super) files: Vec<File>,
    pub(super) index: Option<ShardIndex>,
    /// The model that several files make up, once their headers have been read.
    model: Mutex<Option<Arc<Model>>>,
    /// The only file, or all files as one, once restored.
    pub(super) whole: Mutex<Option<Arc<Local>>>,
}

/// A file of a checkpoint.
pub(super) enum File {
    Input(Input),
    Shard(Shard),
}

impl File {
    /// Returns the name of the file without folders and the extension.
    fn stem(&self) -> &str {
        match self {
            Self::Input(_) => "",
            Self::Shard(shard) => shard.stem(),
        }
    }

    /// Returns whether the file is named like a delta.
    fn is_named_delta(&self) -> bool {
        matches!(self, Self::Shard(shard) if shard.name.ends_with(".z4dm"))
    }

    /// Returns whether the file has to be fetched or restored, which takes disk space.
    pub(super) fn takes_disk_space(&self) -> bool {
        match self {
            Self::Input(_) => true,
            Self::Shard(shard) => {
                shard.location.is_remote() || !shard.name.ends_with(".safetensors")
            }
        }
    }

    fn open(&self, http: &HttpOptions) -> Result<Box<dyn Source>> {
        match self {
            Self::Input(input) => input.open(http),
            Self::Shard(shard) => shard.open_closed(http),
        }
    }

    pub(super) fn fetch(&self, job: &Job) -> Result<Arc<Local>> {
        match self {
            Self::Input(input) => input.fetch(&job.http, job),
            Self::Shard(shard) => {
                let fetching = |so_far, len| job.fetching(so_far, len);
                shard.fetch(&job.http, &fetching).map(Arc::new)
            }
        }
    }
}

impl Base {
    pub(super) fn new(name: String, files: Vec<File>, index: Option<ShardIndex>) -> Self {
        Self {
            name,
            files,
            index,
            model: Mutex::default(),
            whole: Mutex::default(),
        }
    }

    pub(super) fn of_shards(shards: &Shards) -> Self {
        let files = shards.files().iter().cloned().map(File::Shard);
        let index = shards.index().map(|index| index.parsed.clone());
        Self::new(shards.location().to_string(), files.collect(), index)
    }

    /// Returns the model that the files make up. The first call reads their headers.
    fn model(&self, job: &Job) -> Result<Arc<Model>> {
        let mut known = locked(&self.model);
        if let Some(model) = &*known {
            return Ok(model.clone());
        }
        let engine = job.steady_engine();
        let are_remote = self.files.iter().map(|file| match file {
            File::Input(input) => input.is_remote(),
            File::Shard(shard) => shard.location.is_remote(),
        });
        let at_once = parallel::at_once(are_remote, FILES_AT_ONCE);
        let catalogs = parallel::run(self.files.len(), at_once, |number| {
            open_catalog(&engine, &*self.files[number].open(&job.http)?)
        })?;
        let model = ModelBuilder::new(catalogs, self.index.as_ref(), None);
        let model = model.and_then(|builder| builder.finish(&engine));
        let model = Arc::new(model.map_err(Error::place(&self.name))?);
        *known = Some(model.clone());
        Ok(model)
    }

    /// Returns the number of the file that has the name of `other` apart from folders and
    /// the extension.
    fn file_named_like(&self, other: &Local) -> Option<usize> {
        let name = other.name().rsplit(['/', '\\']).next()?;
        let stem = stem(name);
        self.files.iter().position(|file| file.stem() == stem)
    }

    /// Returns the number of the file that `delta` was made against; `None` for the only
    /// file, and for all files as one.
    pub(super) fn file_of_delta(&self, job: &Job, delta: &Local) -> Result<Option<usize>> {
        if self.files.len() < 2 {
            return Ok(None);
        }
        let model = self.model(job)?;
        let catalog = open_catalog(&job.steady_engine(), delta)?;
        // A delta of z4ai names no base, and may fit several files.
        if let Some(number) = self.file_named_like(delta)
            && catalog.check_base(&model.files()[number]).is_ok()
        {
            return Ok(Some(number));
        }
        let pair = format!("{} with the base {}", delta.name(), self.name);
        model.base_of(&catalog).map_err(Error::place(pair))
    }

    /// Returns the number of checkpoints that this base was made against: 0 if it is not a
    /// delta, and more than 1 if its base is computed from several.
    pub(super) fn sources(&self, job: &Job) -> Result<usize> {
        // A shard that could not be packed as a delta is a container, although its name
        // ends in .z4dm.
        let named = self.files.iter().filter(|file| file.is_named_delta());
        let mut likely: Vec<&File> = named.collect();
        let are_named = !likely.is_empty();
        if !are_named {
            likely.extend(self.files.first());
        }
        for file in likely {
            let file = file.open(&job.http)?;
            let head = file.read(0..file.len_bytes().min(HEAD_LEN_BYTES))?;
            if recognise(&head, file.len_bytes()).is_ok_and(|kind| kind == FileKind::Delta) {
                return source_count(&*file);
            }
        }
        Ok(usize::from(are_named))
    }

    /// Returns the number of the file that is the base for packing `target`: the one with
    /// the same name, if it has all of the target's tensors that the base has. `None` for
    /// the only file, and for all files as one.
    pub(super) fn file_for_packing(
        &self,
        job: &Job,
        target: &Local,
        is_extended: bool,
    ) -> Result<Option<usize>> {
        let named = self.file_named_like(target);
        let Some(named) = named.filter(|_| self.files.len() > 1) else {
            return Ok(None);
        };
        let model = self.model(job)?;
        let head = safetensors_head(target)?;
        let json = head.get(zstn_core::bytes::index(PREFIX_BYTES)..);
        let packer = DeltaPacker::new(json.unwrap_or_default().to_vec(), target.len_bytes());
        let packer = packer.map_err(Error::place(target.name()))?;
        let mut tensors = packer.tensors().iter();
        let is_enough = tensors.all(|tensor| match model.find(&tensor.name) {
            Ok(number) => {
                let mut parts = model.tensors()[number].parts.iter();
                parts.all(|part| part.file == named)
            }
            // A delta with extension frames may use a tensor of another name.
            Err(_) => !is_extended,
        });
        Ok(is_enough.then_some(named))
    }
}

/// Returns the number of checkpoints that a delta was made against.
pub(super) fn source_count(delta: &dyn Source) -> Result<usize> {
    Ok(computed_from(delta)?.unwrap_or(1))
}

/// Returns whether the base of a delta is computed from other checkpoints.
pub(super) fn has_computed_base(delta: &dyn Source) -> Result<bool> {
    Ok(computed_from(delta)?.is_some())
}

fn computed_from(delta: &dyn Source) -> Result<Option<usize>> {
    let mut read = |range| delta.read(range);
    let count = model_delta::source_count(delta.len_bytes(), &mut read);
    count.map_err(|error: Error| error.placed(delta.name()))
}

/// Returns the number of checkpoints that a delta was made against, and 0 if the model is
/// not a delta.
pub(crate) fn sources_of_base(model: &Model) -> usize {
    let computed = model.files().iter().find_map(|file| file.mixes());
    computed.map_or_else(|| usize::from(model.needs_base()), Mixes::sources)
}

/// Returns whether the base of a delta is computed from other checkpoints.
pub(crate) fn is_base_computed(model: &Model) -> bool {
    model.files().iter().any(|file| file.mixes().is_some())
}

pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
