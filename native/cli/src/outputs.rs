//! Destinations of results and their default names.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use clap::Args;
use zstn::internals::original_file;
use zstn::{Error, Location, Result};
use zstn_core::catalog::{IndexName, has_other_extension};

use super::arguments::{self, Destination};

/// Suffixes of folders with packed files.
const PACKED_SUFFIXES: [&str; 2] = ["-zstn", "-z4dm"];

/// The `-o` option of verbs that accept several inputs.
#[derive(Args)]
pub struct Outputs {
    /// Output: a path, an address such as s3://bucket/name, or `-` for standard output;
    /// a folder if there are several inputs [default: next to the input, with a name
    /// derived from the input's]
    #[arg(short, long, value_parser = arguments::destination())]
    output: Option<Destination>,
    /// Write to standard output, like -o -
    #[arg(short = 'c', long, conflicts_with = "output")]
    stdout: bool,
}

impl Outputs {
    /// Returns the destination for each input. `name` gives the default names.
    pub fn destinations(&self, inputs: &[Location], name: &Naming) -> Result<Vec<Destination>> {
        let output = match self.stdout {
            true => Some(&Destination::Stdout),
            false => self.output.as_ref(),
        };
        let derived = |input: &Location| match output {
            Some(Destination::Stdout) => Ok(Destination::Stdout),
            Some(folder) => Ok(folder.join(name.of(input)?.file_name().unwrap_or_default())),
            None if *input == Location::Stdin => Ok(Destination::Stdout),
            None => name.of(input).map(Destination::Path),
        };
        let make_folder = || match output {
            Some(Destination::Path(folder)) => std::fs::create_dir_all(folder)
                .map_err(|error| Error::io(format!("make the folder {}", folder.display()), error)),
            _ => Ok(()),
        };
        if let [input] = inputs {
            let is_several = input.is_folder() || input.is_index();
            return Ok(vec![match output {
                // A single result is written into a folder that exists, or whose name ends in
                // a slash.
                Some(output) if (is_several && !name.is_one_file()) || !output.is_folder() => {
                    output.clone()
                }
                _ => {
                    make_folder()?;
                    derived(input)?
                }
            }]);
        }
        if let (None, Some(Location::Path(last))) = (output, inputs.last())
            && name.is_result(last)
            && !last.exists()
        {
            return Err(Error::Usage(format!(
                "{last} does not exist, and was taken for an input; to name the output, write \
                 -o {last}",
                last = last.display()
            )));
        }
        make_folder()?;
        let all: Vec<Destination> = inputs.iter().map(derived).collect::<Result<_>>()?;
        let mut seen = BTreeSet::new();
        for destination in &all {
            if *destination == Destination::Stdout {
                return Err(Error::Usage(
                    "several results cannot go to standard output; name a folder with -o".into(),
                ));
            }
            if !seen.insert(destination) {
                return Err(Error::Usage(format!(
                    "two of the results would be called {destination}; run zstn once for each"
                )));
            }
        }
        Ok(all)
    }
}

/// The rule for default names of results.
pub enum Naming {
    /// The input's name with this extension, which is added to the whole name of a file
    /// that is not safetensors. For a checkpoint in several files, it is a folder whose
    /// name has the extension appended after a hyphen.
    Packed(&'static str),
    /// The input's name with the extension `.safetensors`, or without an extension if the
    /// original is not safetensors. For a folder of packed files, it is the folder's name
    /// without its suffix.
    Unpacked,
    /// The input's name with the extension `.sketch`. The result is always one file.
    Sketch,
}

impl Naming {
    /// Returns the default path for `input`: next to it, or in the current folder if it
    /// is an address.
    fn of(&self, input: &Location) -> Result<PathBuf> {
        match input {
            Location::Path(folder) if input.is_folder() => {
                let folder = match folder.file_name() {
                    Some(_) => folder.clone(),
                    // `.` and similar paths have a file name only after resolving them.
                    None => folder
                        .canonicalize()
                        .map_err(|error| Error::io(format!("open {}", folder.display()), error))?,
                };
                Ok(folder.with_file_name(self.folder(folder.file_name().unwrap_or_default())))
            }
            Location::Path(index) if input.is_index() => {
                let name = self.of_index(index.file_name().unwrap_or_default());
                Ok(index.with_file_name(name))
            }
            Location::Path(path) => Ok(match self {
                Self::Packed(_) if original_file::is_of_another_format(path) => {
                    self.whole_name(path)
                }
                Self::Unpacked if original_file::is_in(path) => self.whole_name(path),
                _ => match path.with_extension(self.extension()) {
                    // The result must not replace the input.
                    same if same == *path => self.whole_name(path),
                    derived => derived,
                },
            }),
            Location::Pipe(path) => Ok(path.with_extension(self.extension())),
            Location::Stdin => Ok("stdin".into()),
            Location::Url(url) if input.is_folder() => {
                let name = url.trim_end_matches('/').rsplit('/').next();
                Ok(self.folder(name.unwrap_or_default().as_ref()).into())
            }
            Location::Url(_) => {
                let name = input.file_name().unwrap_or_else(|| "model".into());
                Ok(match input.is_index() {
                    true => self.of_index(name.as_ref()).into(),
                    // The content of an address is not read for its name.
                    false if self.seems_of_another_format(&name) => {
                        self.whole_name(Path::new(&name))
                    }
                    false => Path::new(&name).with_extension(self.extension()),
                })
            }
        }
    }

    /// Returns the name of the result for a file that is not safetensors, or was packed
    /// from one: the whole name is kept, and the extension of packed files is added or
    /// removed.
    fn whole_name(&self, path: &Path) -> PathBuf {
        match self {
            Self::Packed(extension) => {
                let mut name = path.file_name().unwrap_or_default().to_owned();
                name.push(".");
                name.push(extension);
                path.with_file_name(name)
            }
            Self::Unpacked | Self::Sketch => path.with_extension(""),
        }
    }

    /// Returns whether the name of an address states that the file is not safetensors, or
    /// was packed from one.
    fn seems_of_another_format(&self, name: &str) -> bool {
        let name = match self {
            Self::Packed(_) => Some(name),
            Self::Unpacked => {
                let stem = name.strip_suffix(".zstn");
                stem.or_else(|| name.strip_suffix(".z4dm"))
            }
            Self::Sketch => None,
        };
        name.is_some_and(has_other_extension)
    }

    /// Returns whether a file of this name is more likely a result than an input.
    fn is_result(&self, path: &Path) -> bool {
        let extension = path.extension().and_then(OsStr::to_str);
        let is_packed = matches!(extension, Some("zstn" | "z4dm"));
        match self {
            Self::Packed(_) => is_packed,
            Self::Unpacked => extension.is_some() && !is_packed,
            Self::Sketch => extension == Some("sketch"),
        }
    }

    /// Returns whether the result for a checkpoint in several files is one file.
    fn is_one_file(&self) -> bool {
        matches!(self, Self::Sketch)
    }

    fn extension(&self) -> &str {
        match self {
            Self::Sketch => "sketch",
            Self::Packed(extension) => extension,
            Self::Unpacked => "safetensors",
        }
    }

    /// Returns the name of the result for the folder `name`.
    fn folder(&self, name: &OsStr) -> OsString {
        let appended = |suffix: &str| {
            let mut name = name.to_owned();
            name.push("-");
            name.push(suffix);
            name
        };
        let text = name.to_str().unwrap_or_default();
        let stems = PACKED_SUFFIXES.iter().map(|end| text.strip_suffix(end));
        match self {
            Self::Packed(extension) => appended(extension),
            Self::Sketch => {
                let mut name = name.to_owned();
                name.push(".sketch");
                name
            }
            Self::Unpacked => match stems.flatten().find(|stem| !stem.is_empty()) {
                Some(stem) => stem.into(),
                None => appended("safetensors"),
            },
        }
    }

    /// Returns the name of the result for the index `file`, whose stem is taken if it
    /// is an [`IndexName`].
    fn of_index(&self, file: &OsStr) -> OsString {
        let Some(text) = file.to_str() else {
            return self.folder(file);
        };
        let stem = match IndexName::parse(text) {
            Some(index) => index.stem(),
            None => {
                let stem = text.strip_suffix(".index.json").unwrap_or(text);
                stem.rsplit_once('.').map_or(stem, |(stem, _)| stem)
            }
        };
        self.folder(stem.as_ref())
    }
}
