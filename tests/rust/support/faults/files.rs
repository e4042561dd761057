//! `tests/faults/files.json`: files that change while they are read, and outputs
//! that cannot be written.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use serde::Deserialize;

use crate::repository;

/// The whole file.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileFaults {
    #[serde(rename = "about")]
    _about: serde_json::Value,
    /// Files that change after they were opened.
    pub inputs: Vec<InputFault>,
    /// Outputs that cannot be written.
    pub outputs: Vec<OutputFault>,
    /// Changes of the folder that is written to.
    pub meanwhile: Vec<FolderFault>,
}

/// A file that changes after it was opened.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputFault {
    /// What has happened to it.
    pub name: String,
    /// What to do with it.
    pub act: Act,
    /// `right`, or the code of the native error.
    pub native: String,
    /// The same for the npm package, if it was given a path.
    pub npm_path: String,
    /// The same, if it was given a `Blob` of the file.
    pub npm_blob: String,
    /// Why they differ.
    pub why: Option<String>,
}

/// Something done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Act {
    /// Changes bytes in the middle.
    Overwrite,
    /// Leaves 5000 bytes.
    Truncate,
    /// Adds a byte.
    Grow,
    /// Puts another file of the same length in its place.
    Replace,
    /// Removes its name.
    Remove,
    /// Adds another name.
    Link,
}

/// An output that cannot be written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputFault {
    /// What is wrong with it.
    pub name: String,
    /// Files that exist.
    #[serde(default)]
    pub files: Vec<String>,
    /// The name to write to.
    pub output: String,
    /// The longest that a file may become, in blocks of 1024 bytes.
    pub limit_blocks: Option<u32>,
    /// The exit status.
    pub status: i32,
    /// Words of the message.
    pub says: String,
}

/// A change of the folder of an output while it is written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FolderFault {
    /// What has happened to it.
    pub name: String,
    /// What to do with it.
    pub act: FolderAct,
    /// `right`, or the code of the native error.
    pub native: String,
}

/// Something done with the folder of an output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FolderAct {
    /// Removes it with all that it holds.
    RemoveFolder,
    /// Writes a file with the name of the output.
    TakeName,
    /// Writes a file with another name.
    AddFile,
}

impl FolderAct {
    /// Does it to the folder of `output`.
    ///
    /// # Errors
    /// If the system refuses it.
    pub fn apply(self, output: &Path) -> io::Result<()> {
        match self {
            Self::RemoveFolder => output.parent().map_or(Ok(()), fs::remove_dir_all),
            Self::TakeName => fs::write(output, "mine"),
            Self::AddFile => fs::write(output.with_extension("beside"), "mine"),
        }
    }
}

impl FileFaults {
    /// Reads the file.
    ///
    /// # Panics
    /// If it is not as described.
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
    /// Does it.
    ///
    /// # Errors
    /// If the system refuses it.
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
