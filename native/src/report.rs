//! The reports of packing, unpacking and verifying.

use std::path::PathBuf;

use zstn_core::catalog::FileKind;

/// The result of packing: a single file, or one file for every shard of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackReport {
    /// The files that were packed, sorted by name.
    pub files: Vec<PackedFile>,
    /// The other files of the output folder, if the result is a folder.
    pub folder: Option<FolderReport>,
}

/// The upload of a file to an object store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Uploaded {
    /// The number of parts of the upload; 0 if the object was sent in one request.
    pub parts: u64,
    /// The number of parts that an earlier, interrupted attempt had already sent.
    pub parts_reused: u64,
}

/// A file that was packed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackedFile {
    /// Path of the input relative to the folder, or the name of the input if it is a
    /// single file.
    pub input: String,
    /// Path of the packed file, relative to the folder if there is one, or its address.
    /// `None` if the output was a writer.
    pub output: Option<PathBuf>,
    /// Length of the input in bytes.
    pub original_bytes: u64,
    /// Length of the packed file in bytes.
    pub packed_bytes: u64,
    /// Number of tensors in the file.
    pub tensors: usize,
    /// How the tensors of the file are stored.
    pub storage: Storage,
    /// The format of the file, if it is not a safetensors file.
    pub original: Option<PackedOriginal>,
    /// The upload, if the output was an object store.
    pub upload: Option<Uploaded>,
}

/// A file that was packed and is not a safetensors file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackedOriginal {
    /// The [name](FileKind::name) of the format, or `bytes` if it is not known or the
    /// file was refused.
    pub kind: String,
    /// The reason why the file was packed as bytes, so that no tensors can be read from
    /// the container.
    pub refusal: Option<String>,
}

/// How the tensors of a packed file are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Storage {
    /// A container with an index, from which single tensors can be read.
    #[non_exhaustive]
    Indexed {
        /// The number of tensors that are stored as references to tensors with the same
        /// bytes.
        aliased: usize,
    },
    /// One frame for all data, because the file breaks the safetensors rules. It can be
    /// restored; single tensors cannot be read.
    SingleFrame,
    /// The delta from a base.
    #[non_exhaustive]
    Delta {
        /// The number of tensors that equal the tensors of the base.
        copied: usize,
        /// The number of tensors that are stored as a delta.
        differing: usize,
        /// The number of tensors that are stored in full, because the base has none of
        /// that name, dtype and length or because the delta would be larger.
        whole: usize,
    },
}

/// The contents of an output folder apart from the files that were packed or unpacked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct FolderReport {
    /// Name of the folder's shard index, if it has one.
    pub index: Option<String>,
    /// Files that were copied unchanged.
    pub copied: Vec<PathBuf>,
    /// Total length of the copied files in bytes.
    pub copied_bytes: u64,
    /// The copied files that are named like a checkpoint or an index but could not be
    /// packed, with the reason.
    pub not_packed: Vec<(PathBuf, String)>,
    /// Tensors that an index lists but that are missing from the file it names.
    pub missing_tensors: Vec<String>,
    /// Entries of the input folder that were not copied: a repository's history
    /// (`.git`), links to folders, and entries that are neither files nor folders.
    pub left_out: Vec<PathBuf>,
}

/// The result of unpacking: a single file, or one file for every shard of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnpackReport {
    /// The files that were restored, sorted by name.
    pub files: Vec<UnpackedFile>,
    /// The other files of the output folder, if the result is a folder.
    pub folder: Option<FolderReport>,
}

/// A file that was restored.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnpackedFile {
    /// Path of the packed file relative to the folder, or the name of the input if it
    /// is a single file.
    pub input: String,
    /// Path of the restored file, relative to the folder if there is one, or its
    /// address. `None` if the output was a writer.
    pub output: Option<PathBuf>,
    /// Length of the packed file in bytes.
    pub packed_bytes: u64,
    /// Length of the restored file in bytes.
    pub original_bytes: u64,
    /// The upload, if the output was an object store.
    pub upload: Option<Uploaded>,
}

/// The result of verifying a single file, every shard of a packed checkpoint, or a
/// model in another format as a whole.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct VerifyReport {
    /// The files that were verified, sorted by name.
    pub files: Vec<VerifiedFile>,
    /// True if all tensors were compared with the tensors of an original.
    pub compared: bool,
    /// True if every byte of every file was compared with the original and equals it.
    pub identical: bool,
    /// The number of tensors that the index of a sharded checkpoint names and that were
    /// found in their files.
    pub indexed_tensors: usize,
    /// Tensors that the index names but that are missing from their files.
    pub missing_tensors: Vec<String>,
    /// Entries of the folder that were not checked: files that are copied unchanged
    /// have no checksums, so only a comparison with the original can detect a change.
    /// In a local folder whose model is not packed, these are the model files, outside
    /// subfolders, that do not belong to it.
    pub unchecked_files: Vec<PathBuf>,
}

/// A file that was verified, or a model in files of another format.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct VerifiedFile {
    /// The path relative to the folder, or the name of the input if it is a single
    /// file.
    pub name: String,
    /// The format of the file.
    pub kind: FileKind,
    /// Length of the file, or of all files of the model, in bytes.
    pub packed_bytes: u64,
    /// Length in bytes of the file that it restores, or of its tensors if it restores
    /// no file.
    pub original_bytes: u64,
    /// Number of frames, records or tensors that were decoded.
    pub frames: usize,
    /// True if every byte was compared with digests stored in the file.
    pub has_digests: bool,
    /// True if the restored file as a whole was compared with a digest stored in the
    /// packed file; see [`VerifyOptions::fast`](crate::VerifyOptions::fast).
    pub has_file_digest: bool,
    /// The largest error of a lossily stored element compared with the original, within
    /// the bound that the file states. `None` if no element was stored lossily, or no
    /// element was compared.
    pub max_error: Option<f64>,
    /// True if the file has recorded that its SHA-256, which was claimed, has been compared
    /// ([`VerifyOptions::confirm`](crate::VerifyOptions::confirm)).
    pub is_confirmed: bool,
}

/// Defines methods that add up a field over all files.
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
        /// Returns the total length of the safetensors files in bytes.
        original_bytes: u64,
        /// Returns the total length of the packed files in bytes.
        packed_bytes: u64,
        /// Returns the number of tensors in all files.
        tensors: usize
    }
}

impl UnpackReport {
    sum! {
        /// Returns the total length of the packed files in bytes.
        packed_bytes: u64,
        /// Returns the total length of the restored files in bytes.
        original_bytes: u64
    }
}

impl VerifyReport {
    sum! {
        /// Returns the total length of the verified files in bytes.
        packed_bytes: u64,
        /// Returns the total length of the files that they restore, in bytes.
        original_bytes: u64,
        /// Returns the number of frames, records or tensors that were decoded.
        frames: usize
    }

    /// Returns whether every byte was compared with digests stored in the files.
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
