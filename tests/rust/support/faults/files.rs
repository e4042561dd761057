//! Data types for `tests/faults/files.json`: inputs that change while they are read,
//! and outputs that cannot be written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use serde::Deserialize;

use crate::repository;

/// The parsed `files.json`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileFaults {
    #[serde(rename = "about")]
    _about: serde_json::Value,
    /// Inputs that change after they were opened.
    pub inputs: Vec<InputFault>,
    /// Outputs whose write must fail.
    pub outputs: Vec<OutputFault>,
    /// Changes to the output folder during a write.
    pub meanwhile: Vec<FolderFault>,
}

/// An input that changes after it was opened.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputFault {
    /// Description of the change, used in messages.
    pub name: String,
    /// The change to make.
    pub act: Act,
    /// Expected native result: `right`, or an error code.
    pub native: String,
    /// Expected result of the npm package when it opens a path.
    pub npm_path: String,
    /// Expected result of the npm package when it opens a `Blob` of the file.
    pub npm_blob: String,
    /// Why the three results differ; required exactly if they do.
    pub why: Option<String>,
}

/// A change to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Overwrites bytes in the middle.
    Overwrite,
    /// Truncates the file to 5000 bytes.
    Truncate,
    /// Appends a byte.
    Grow,
    /// Renames another file of the same length over it.
    Replace,
    /// Removes the file.
    Remove,
    /// Adds another hard link.
    Link,
}

/// An output that cannot be written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputFault {
    /// Description of the problem, used in messages.
    pub name: String,
    /// Files that exist in the folder beforehand.
    #[serde(default)]
    pub files: Vec<String>,
    /// Name of the output to write.
    pub output: String,
    /// Limit on the size of any file, in blocks of 1024 bytes.
    pub limit_blocks: Option<u32>,
    /// The expected exit status.
    pub status: i32,
    /// Text that the error message must contain.
    pub says: String,
}

/// A change to the folder of an output during the write.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FolderFault {
    /// Description of the change, used in messages.
    pub name: String,
    /// The change to make.
    pub act: FolderAct,
    /// Expected native result: `right`, or an error code.
    pub native: String,
}

/// A change to the folder of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FolderAct {
    /// Removes the folder and its contents.
    RemoveFolder,
    /// Creates a file with the output's name.
    TakeName,
    /// Creates a file with another name.
    AddFile,
}

impl FolderAct {
    /// Makes the change in the folder of `output`.
    ///
    /// # Errors
    /// If the file system refuses the change.
    pub fn apply(self, output: &Path) -> io::Result<()> {
        match self {
            Self::RemoveFolder => output.parent().map_or(Ok(()), fs::remove_dir_all),
            Self::TakeName => fs::write(output, "mine"),
            Self::AddFile => fs::write(output.with_extension("beside"), "mine"),
        }
    }
}

impl FileFaults {
    /// Parses `tests/faults/files.json`.
    ///
    /// # Panics
    /// If the file does not match these types, or a difference between results has no
    /// reason.
    #[must_use]
    pub fn load() -> Self {
        let path = repository().join("tests/faults/files.json");
        let text = fs::read_to_string(path).expect("tests/faults/files.json");
        let faults: Self = serde_json::from_str(&text).expect("tests/faults/files.json");
        for fault in &faults.inputs {
            let same = fault.native == fault.npm_path && fault.native == fault.npm_blob;
            assert!(same == fault.why.is_none(), "{}: why?", fault.name);
        }
        faults
    }
}

impl Act {
    /// Makes the change to the file at `path`.
    ///
    /// # Errors
    /// If the file system refuses the change.
    pub fn apply(self, path: &Path) -> io::Result<()> {
        let beside = path.with_extension("beside");
        let open = || OpenOptions::new().write(true).open(path);
        match self {
            Self::Overwrite => {
                let mut file = open()?;
                let middle = file.metadata()?.len() / 2;
                file.seek(SeekFrom::Start(middle))?;
                file.write_all(b"scribbled")
            }
            Self::Truncate => open()?.set_len(5000),
            Self::Grow => {
                let mut file = open()?;
                file.seek(SeekFrom::End(0))?;
                file.write_all(b"x")
            }
            Self::Replace => {
                let len_bytes = fs::metadata(path)?.len();
                File::create(&beside)?.set_len(len_bytes)?;
                fs::rename(&beside, path)
            }
            Self::Remove => fs::remove_file(path),
            Self::Link => fs::hard_link(path, &beside),
        }
    }
}
