//! Inputs and default output names, the same for all verbs.

use std::path::{Path, PathBuf};

use zstn::source::{Map, Place};
use zstn::{Error, Native, Reader, Result};

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

/// `input` for reading parts, with its base if it is a delta.
pub fn reader(input: &str, base: Option<&str>) -> Result<Reader> {
    let open = |place: &str| Reader::from_source(Place::from(place).open()?, Native::new(0)?);
    let reader = open(input)?;
    match base {
        None => Ok(reader),
        Some(base) => reader.with_base(open(base)?),
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
