//! Inputs and outputs as a person names them, the same for all verbs.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use zstn::source::{Map, Place};
use zstn::{BaseFile, Native, Output, Reader, Result, Shards, View};

use super::{progress, terminal};

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
    #[command(flatten)]
    bases: Bases,
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
        self.bases.add_to(reader, 0)
    }
}

/// The chain of bases that a difference needs.
#[derive(Args)]
pub struct Bases {
    /// The checkpoint that a difference is packed against, plain or packed: a
    /// path or an http(s) address. If the base is a difference itself, name its
    /// base with another --base after it
    #[arg(long = "base", value_name = "BASE", value_parser = parser())]
    chain: Vec<Place>,
}

impl Bases {
    /// Whether one is named.
    pub fn is_some(&self) -> bool {
        !self.chain.is_empty()
    }

    /// The first of them as a plain file, restored if it is packed.
    pub fn open(&self, engine: &Native, memory: u64, quiet: bool) -> Result<BaseFile> {
        let bar = progress::watch("restoring the base", quiet);
        BaseFile::open(engine, &self.chain, memory, &bar)
    }

    /// As `open`, for the difference `input`; `None` if no base is named.
    pub fn open_for(&self, input: &Map, engine: &Native, quiet: bool) -> Result<Option<BaseFile>> {
        if self.chain.is_empty() {
            return Ok(None);
        }
        let bar = progress::watch("restoring the base", quiet);
        BaseFile::open_for(engine, input, &self.chain, u64::MAX, &bar).map(Some)
    }

    /// Adds them to the `reader` of a difference, for reading single tensors.
    pub fn add_to(&self, reader: Reader, threads: usize) -> Result<Reader> {
        let mut base: Option<Reader> = None;
        for place in self.chain.iter().rev() {
            let nearer = Reader::from_place(place, View::Stored, Native::new(threads)?)?;
            base = Some(match base {
                None => nearer,
                Some(base) => nearer.with_base(base)?,
            });
        }
        match base {
            None => Ok(reader),
            Some(base) => reader.with_base(base),
        }
    }

    /// Each of them in several files, or in one.
    pub fn shards(&self) -> Result<Vec<Shards>> {
        let open = |place: &Place| {
            let shards = Shards::open_tree(place, &zstn::shards::BASES)?;
            Ok(shards.unwrap_or_else(|| Shards::of_file(place.clone())))
        };
        self.chain.iter().map(open).collect()
    }

    /// The first of them, for JSON.
    pub fn name(&self) -> Option<String> {
        self.chain.first().map(Place::to_string)
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
    /// Begins the file at `path`; `-` is standard output.
    pub fn begin(self, path: &Path) -> Result<Output> {
        terminal::refuse_binary(path, self.force)?;
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
