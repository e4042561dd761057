//! The reports of packing, unpacking and verifying.

use std::path::PathBuf;

use zstn_core::catalog::Kind;

/// The result of packing: one file, or one for every shard of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackReport {
    /// The files that were packed, in the order of their names.
    pub files: Vec<PackedFile>,
    /// Everything else in the folder that was made, if it is one.
    pub folder: Option<FolderReport>,
}

/// The upload of a file to an object store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Uploaded {
    /// Parts that the object was sent in; 0 if it was sent as a whole.
    pub parts: u64,
    /// Parts among them that an earlier attempt, which was cut off, had sent.
    pub parts_reused: u64,
}

/// A file that was packed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackedFile {
    /// Its path relative to the folder, or for a single file the name of the
    /// input.
    pub input: String,
    /// Path of the packed file, relative to the folder if there is one, or its
    /// address. `None` for a writer.
    pub output: Option<PathBuf>,
    /// Length of the safetensors file.
    pub original_bytes: u64,
    /// Length of the packed file.
    pub packed_bytes: u64,
    /// Number of tensors in the file.
    pub tensors: usize,
    /// The storage of its tensors.
    pub storage: Storage,
    /// Its upload, if it went to an object store.
    pub upload: Option<Uploaded>,
}

/// The storage of the tensors of a packed file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Storage {
    /// A container with an index, from which single tensors can be read.
    #[non_exhaustive]
    Indexed {
        /// Tensors stored as references to others with the same bytes.
        aliased: usize,
    },
    /// One frame for all data, because the file breaks the safetensors rules. It can be
    /// restored; single tensors cannot be read.
    SingleFrame,
    /// The difference from a base.
    #[non_exhaustive]
    Delta {
        /// Tensors equal to those of the base.
        copied: usize,
        /// Tensors stored as a difference.
        differing: usize,
        /// Tensors stored by themselves: the base has none of that name, dtype
        /// and length, or the difference would be larger.
        whole: usize,
    },
}

/// The rest of a folder that was made, without the files that were worked on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct FolderReport {
    /// Name of its index, if it has one.
    pub index: Option<String>,
    /// Files that were copied as they are.
    pub copied: Vec<PathBuf>,
    /// Length of these files.
    pub copied_bytes: u64,
    /// Those of them that have the name of a checkpoint or of an index and could not
    /// be packed, with the reason.
    pub not_packed: Vec<(PathBuf, String)>,
    /// Tensors that an index lists and that are not in the file that it names.
    pub missing_tensors: Vec<String>,
    /// Entries of the input's folder that were not copied: the history of a
    /// repository (`.git`), links to folders, and what is neither a file nor a
    /// folder.
    pub left_out: Vec<PathBuf>,
}

/// The result of unpacking: one file, or one for every shard of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnpackReport {
    /// The files that were restored, in the order of their names.
    pub files: Vec<UnpackedFile>,
    /// Everything else in the folder that was made, if it is one.
    pub folder: Option<FolderReport>,
}

/// A file that was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnpackedFile {
    /// Path of the packed file relative to the folder, or for a single file the
    /// name of the input.
    pub input: String,
    /// Path of the restored file, relative to the folder if there is one, or its
    /// address. `None` for a writer.
    pub output: Option<PathBuf>,
    /// Length of the packed file.
    pub packed_bytes: u64,
    /// Length of the restored file.
    pub original_bytes: u64,
    /// Its upload, if it went to an object store.
    pub upload: Option<Uploaded>,
}

/// The result of verifying: one file, one for every shard of a packed
/// checkpoint, or a model of another kind as a whole.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The files that were verified, in the order of their names.
    pub files: Vec<VerifiedFile>,
    /// Whether all tensors were compared with those of an original.
    pub compared: bool,
    /// Whether every byte of every file was compared with the original, and is the
    /// same.
    pub identical: bool,
    /// Number of tensors that the index of a checkpoint in several files names and
    /// that were found in their files.
    pub indexed_tensors: usize,
    /// Tensors that the index names and that are not in their files.
    pub missing_tensors: Vec<String>,
    /// Entries of the folder that were not checked: files that are copied as they are
    /// have no checksums, so that only an original shows a change.
    pub unchecked_files: Vec<PathBuf>,
}

/// A file that was verified, or a model in files of other kinds.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct VerifiedFile {
    /// Its path relative to the folder, or the name of the input.
    pub name: String,
    /// The kind of file it is.
    pub kind: Kind,
    /// Length of the file or files.
    pub packed_bytes: u64,
    /// Length of the file it restores; where there is none, of its tensors.
    pub original_bytes: u64,
    /// Number of frames, records or tensors that were decoded.
    pub frames: usize,
    /// Whether every byte was compared with digests that the file holds.
    pub has_digests: bool,
    /// Largest distance from the original of an element that was stored
    /// lossily, within what the file promises. `None` if nothing was lossy, or
    /// nothing compared.
    pub max_error: Option<f64>,
}

/// Adds up a field of all files.
macro_rules! sum {
    ($($(#[$doc:meta])* $field:ident: $type:ty),*) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $field(&self) -> $type {
            self.files.iter().map(|file| file.$field).sum()
        }
    )*};
}

impl PackReport {
    sum! {
        /// Returns the length of all safetensors files.
        original_bytes: u64,
        /// Returns the length of all packed files.
        packed_bytes: u64,
        /// Returns the number of tensors in all files.
        tensors: usize
    }
}

impl UnpackReport {
    sum! {
        /// Returns the length of all packed files.
        packed_bytes: u64,
        /// Returns the length of all restored files.
        original_bytes: u64
    }
}

impl VerifyReport {
    sum! {
        /// Returns the length of all files that were verified.
        packed_bytes: u64,
        /// Returns the length of all files they restore.
        original_bytes: u64,
        /// Returns the number of frames, records or tensors that were decoded.
        frames: usize
    }

    /// Returns whether every byte was compared with digests in the files.
    #[must_use]
    pub fn has_digests(&self) -> bool {
        self.files.iter().all(|file| file.has_digests)
    }

    /// Returns the largest [`VerifiedFile::max_error`] of all files.
    #[must_use]
    pub fn max_error(&self) -> Option<f64> {
        let errors = self.files.iter().filter_map(|file| file.max_error);
        errors.reduce(f64::max)
    }
}
