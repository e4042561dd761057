//! `--base`: the checkpoints that a delta needs.

use clap::builder::TypedValueParser;
use clap::{Arg, Args};
use zstn::{Input, Location};

use super::arguments::location;

/// The chain of bases that a delta needs.
#[derive(Args)]
pub struct Bases {
    /// The checkpoint against which a delta is packed, plain or packed: a path or an
    /// address. If the base is a delta itself, name its base with another --base after
    /// it
    #[arg(id = "base", long = "base", value_name = "BASE", value_parser = base())]
    chain: Vec<Location>,
}

/// The value of `--base` that searches for a base when packing. A file of this name can
/// be given as `./auto`.
const AUTO: &str = "auto";

/// Parses a base and refuses `auto`.
fn base() -> impl TypedValueParser<Value = Location> {
    location().try_map(|base| match base == Location::from(AUTO) {
        true => Err(
            "only `zstn pack` looks for a base; give the one that the file was packed against \
             (for a file of this name, ./auto)",
        ),
        false => Ok(base),
    })
}

impl Bases {
    /// Changes `--base` for a verb that accepts `auto`.
    pub fn or_auto(argument: Arg) -> Arg {
        argument.value_parser(location()).help(
            "The checkpoint to store only the delta from, plain or packed: a path or an address. \
             If it is a delta itself, name its base with another --base after it. \
             `auto` looks for the best one in --family",
        )
    }

    /// Returns whether `auto` is given, alone or with other bases.
    pub fn is_auto(&self) -> bool {
        self.chain.contains(&Location::from(AUTO))
    }

    /// Returns the number of bases given.
    pub fn count(&self) -> usize {
        self.chain.len()
    }

    /// Returns whether any base is given.
    pub fn is_some(&self) -> bool {
        !self.chain.is_empty()
    }

    /// Calls `add` for every base.
    pub fn add_to<T>(&self, options: T, add: impl Fn(T, Input) -> T) -> T {
        let bases = self.chain.iter();
        bases.fold(options, |options, base| add(options, base.into()))
    }

    /// Returns the names of the bases, for JSON.
    pub fn names(&self) -> Vec<String> {
        self.chain.iter().map(Location::to_string).collect()
    }
}
