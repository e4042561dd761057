//! What working on a checkpoint in several files came to.

use crate::{DeltaReport, PackReport, UnpackReport, VerifyReport};

/// The folder that was made. Shards are in the order of their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardsReport<T> {
    /// Name of its index, if it has one.
    pub index: Option<String>,
    /// Its shards.
    pub shards: Vec<ShardReport<T>>,
    /// Files that were copied as they are.
    pub copied: Vec<String>,
    /// What lies in the input's folder and was not: the history of a repository
    /// (`.git`), links to folders, and what is neither a file nor a folder.
    pub left_out: Vec<String>,
}

/// One of its shards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardReport<T> {
    /// Path of the file it was made from, relative to the input's folder.
    pub input: String,
    /// Path of the file in the folder.
    pub output: String,
    /// What it came to.
    pub report: T,
}

/// A shard that was packed, by itself or against that of a base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packed {
    /// Into a container.
    Container(PackReport),
    /// Into a delta.
    Delta(DeltaReport),
}

/// What was verified. Shards are in the order of their names.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardsVerified {
    /// Name of each file, and what it came to.
    pub shards: Vec<(String, VerifyReport)>,
    /// Tensors of the index that were found in their files.
    pub indexed_tensors: usize,
}

impl Packed {
    /// Length of the safetensors file.
    #[must_use]
    pub fn original_bytes(&self) -> u64 {
        match self {
            Self::Container(report) => report.original_bytes,
            Self::Delta(report) => report.original_bytes,
        }
    }

    /// Length of what it was packed to.
    #[must_use]
    pub fn packed_bytes(&self) -> u64 {
        match self {
            Self::Container(report) => report.packed_bytes,
            Self::Delta(report) => report.packed_bytes,
        }
    }

    /// Tensors in the file.
    #[must_use]
    pub fn tensors(&self) -> usize {
        match self {
            Self::Container(report) => report.tensors,
            Self::Delta(report) => report.tensors,
        }
    }
}

impl ShardsReport<Packed> {
    /// Length of all safetensors files.
    #[must_use]
    pub fn original_bytes(&self) -> u64 {
        let shards = self.shards.iter();
        shards.map(|shard| shard.report.original_bytes()).sum()
    }

    /// Length of what they were packed to.
    #[must_use]
    pub fn packed_bytes(&self) -> u64 {
        let shards = self.shards.iter();
        shards.map(|shard| shard.report.packed_bytes()).sum()
    }
}

impl ShardsReport<UnpackReport> {
    /// Length of all packed files.
    #[must_use]
    pub fn packed_bytes(&self) -> u64 {
        let shards = self.shards.iter();
        shards.map(|shard| shard.report.packed_bytes).sum()
    }

    /// Length of all restored files.
    #[must_use]
    pub fn original_bytes(&self) -> u64 {
        let shards = self.shards.iter();
        shards.map(|shard| shard.report.original_bytes).sum()
    }
}

impl ShardsVerified {
    /// Length of all packed files.
    #[must_use]
    pub fn packed_bytes(&self) -> u64 {
        let shards = self.shards.iter();
        shards.map(|(_, report)| report.packed_bytes).sum()
    }

    /// Length of all files they restore.
    #[must_use]
    pub fn original_bytes(&self) -> u64 {
        let shards = self.shards.iter();
        shards.map(|(_, report)| report.original_bytes).sum()
    }

    /// Frames or records decoded.
    #[must_use]
    pub fn frames(&self) -> usize {
        self.shards.iter().map(|(_, report)| report.frames).sum()
    }
}
