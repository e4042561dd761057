//! Inputs and default output names, the same for all verbs.

use std::path::{Path, PathBuf};

use clap::Args;
use zstn::source::{Map, Place};
use zstn::{Error, Native, Reader, Result, View};

use super::progress;

/// The whole of `input` as a map; a download shows its progress.
pub fn whole(input: &str, quiet: bool) -> Result<Map> {
    let place = Place::from(input);
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
    pub input: String,
    /// The checkpoint that a difference was packed against: a path or an
    /// http(s) address, plain or packed
    #[arg(long, value_name = "BASE")]
    base: Option<String>,
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
        let reader = Reader::from_place(&Place::from(self.input.as_str()), view, Native::new(0)?)?;
        match &self.base {
            None => Ok(reader),
            Some(base) => {
                let base = Place::from(base.as_str());
                reader.with_base(Reader::from_place(&base, View::Stored, Native::new(0)?)?)
            }
        }
    }
}

/// Where the result goes: as the person says, else under the `name` made of
/// the input's. A name nobody has typed never replaces a file.
pub fn output(
    input: &str,
    output: Option<&Path>,
    name: impl Fn(&Path) -> PathBuf,
    force: bool,
) -> Result<PathBuf> {
    if let Some(output) = output {
        return Ok(output.into());
    }
    let derived = match Place::from(input) {
        Place::Stdin => return Ok("-".into()),
        Place::Path(path) => name(&path),
        Place::Url(url) => {
            let path = url.split(['?', '#']).next().unwrap_or_default();
            let file = path.rsplit('/').next().filter(|file| !file.is_empty());
            name(Path::new(file.unwrap_or("model")))
        }
    };
    if derived.exists() && !force {
        return Err(Error::Usage(format!(
            "{} exists already; say --force to replace it, or -o to choose another name",
            derived.display()
        )));
    }
    Ok(derived)
}
