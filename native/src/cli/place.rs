//! Inputs and outputs as a person names them, the same for all verbs.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use zstn::source::{Map, Place};
use zstn::{Native, Output, Reader, Result, View};

use super::progress;

/// Parses a path, an address or `-`. Paths need not be Unicode.
pub fn parser() -> impl TypedValueParser<Value = Place> {
    OsStringValueParser::new().map(Place::from)
}

/// The whole of `place` as a map; a download shows its progress.
pub fn whole(place: &Place, quiet: bool) -> Result<Map> {
    let bar = match place {
        Place::Url(_) => progress::bar("fetching", 0, quiet),
        _ => progress::bar("", 0, true),
    };
    let map = place.whole(&|so_far, total| {
        if let Some(total) = total {
            bar.set_length(total);
        }
        bar.set_position(so_far);
    });
    bar.finish_and_clear();
    map
}

/// What the verbs that read single tensors are given.
#[derive(Args)]
pub struct Model {
    /// A file of any kind, the .index.json of a sharded checkpoint, or a local
    /// folder: a path, an http(s) address, or - for standard input
    #[arg(value_parser = parser())]
    pub input: Place,
    /// The checkpoint that a difference was packed against: a path or an
    /// http(s) address, plain or packed
    #[arg(long, value_name = "BASE", value_parser = parser())]
    base: Option<Place>,
    /// Tensors as they are stored, even if config.json says how to make
    /// weights of them (compressed-tensors)
    #[arg(long)]
    stored: bool,
}

impl Model {
    /// Opens it, with its base if it is a delta.
    pub fn open(&self) -> Result<Reader> {
        let view = match self.stored {
            true => View::Stored,
            false => View::Dense,
        };
        let reader = Reader::from_place(&self.input, view, Native::new(0)?)?;
        match &self.base {
            None => Ok(reader),
            Some(base) => {
                reader.with_base(Reader::from_place(base, View::Stored, Native::new(0)?)?)
            }
        }
    }
}

/// Whether a file that exists may be replaced, the same for all verbs: never
/// unless the person says so.
#[derive(Args, Clone, Copy)]
pub struct Overwrite {
    /// Replace existing files
    #[arg(short, long)]
    pub force: bool,
}

impl Overwrite {
    /// Begins the file at `path`.
    pub fn begin(self, path: &Path) -> Result<Output> {
        match self.force {
            true => Output::create(path),
            false => Output::create_new(path),
        }
    }
}

/// Where the result goes: as the person says, else under the `name` made of
/// the input's.
pub fn output(input: &Place, output: Option<&Path>, name: impl Fn(&Path) -> PathBuf) -> PathBuf {
    if let Some(output) = output {
        return output.into();
    }
    match input {
        Place::Stdin => "-".into(),
        Place::Path(path) => name(path),
        Place::Url(_) => {
            let file = input.file_name().unwrap_or_else(|| "model".into());
            name(Path::new(&file))
        }
    }
}
