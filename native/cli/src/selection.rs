//! Selecting and ordering the tensors that a verb shows.

use std::cmp::Ordering;

use clap::{Args, ValueEnum};
use zstn::{Error, Reader, Result};
use zstn_core::dtype::Dtype;
use zstn_core::model::{Model, TensorInfo};

use super::pattern::Pattern;

/// Options that select and order tensors.
#[derive(Args)]
pub struct Selection {
    /// Only tensors whose names match, like 'layers.3.*' (repeatable)
    #[arg(long = "name", value_name = "PATTERN")]
    names: Vec<Pattern>,
    /// Only tensors of this dtype, like BF16 (repeatable)
    #[arg(long = "dtype", value_name = "DTYPE", value_parser = dtype)]
    dtypes: Vec<Dtype>,
    /// Order: as in the file, by name, or largest first by size, stored size or
    /// ratio
    #[arg(long, value_enum, default_value_t, value_name = "BY")]
    sort: Order,
    /// Reverse the order
    #[arg(short, long)]
    reverse: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Order {
    #[default]
    File,
    Name,
    Size,
    Stored,
    Ratio,
}

fn dtype(text: &str) -> Result<Dtype, String> {
    Dtype::from_name(text).ok_or_else(|| format!("`{text}` is not a dtype, such as BF16 or F32"))
}

impl Selection {
    /// Returns whether the options may exclude tensors.
    pub fn is_partial(&self) -> bool {
        !self.names.is_empty() || !self.dtypes.is_empty()
    }

    /// Returns the numbers of the selected tensors, in order.
    ///
    /// # Errors
    /// [`Error::Usage`] if a pattern matches no name.
    pub fn of(&self, reader: &Reader) -> Result<Vec<usize>> {
        let model = reader.model();
        for pattern in &self.names {
            matching(reader, pattern)?;
        }
        let tensors = model.tensors();
        let is_chosen = |tensor: &TensorInfo| {
            let is_named = self
                .names
                .iter()
                .any(|pattern| pattern.matches(&tensor.name));
            (self.names.is_empty() || is_named)
                && (self.dtypes.is_empty() || self.dtypes.contains(&tensor.dtype))
        };
        let numbers = 0..tensors.len();
        let mut chosen: Vec<usize> = numbers.filter(|n| is_chosen(&tensors[*n])).collect();
        match self.sort {
            Order::File => {}
            order => chosen.sort_by(|a, b| order.compare(&tensors[*a], &tensors[*b])),
        }
        if self.reverse {
            chosen.reverse();
        }
        Ok(chosen)
    }
}

impl Order {
    fn compare(self, a: &TensorInfo, b: &TensorInfo) -> Ordering {
        let stored = |tensor: &TensorInfo| match tensor.alias_of {
            Some(_) => 0,
            None => tensor.stored_len_bytes(),
        };
        match self {
            Self::File => Ordering::Equal,
            Self::Name => a.name.cmp(&b.name),
            Self::Size => b.len_bytes().cmp(&a.len_bytes()),
            Self::Stored => stored(b).cmp(&stored(a)),
            Self::Ratio => {
                // a/b > c/d is compared as a·d > c·b. Tensors without stored bytes of
                // their own are last.
                let [(a_len, a_stored), (b_len, b_stored)] = [a, b].map(|tensor| {
                    let stored = u128::from(stored(tensor));
                    match stored {
                        0 => (0, 1),
                        stored => (u128::from(tensor.len_bytes()), stored),
                    }
                });
                (b_len * a_stored).cmp(&(a_len * b_stored))
            }
        }
    }
}

/// Returns the numbers of the tensors that a pattern matches, in the model's order. A
/// tensor whose name is the pattern's text takes precedence.
///
/// # Errors
/// The errors of [`Reader::find`] for a name that does not exist, and [`Error::Usage`]
/// for a pattern without matches.
pub fn matching(reader: &Reader, pattern: &Pattern) -> Result<Vec<usize>> {
    let model: &Model = reader.model();
    if let Ok(number) = model.find(pattern.text()) {
        return Ok(vec![number]);
    }
    if !pattern.is_wild() {
        // Returns the error, which names the file and similar tensor names.
        reader.find(pattern.text())?;
    }
    let tensors = model.tensors().iter().enumerate();
    let found: Vec<usize> = tensors
        .filter(|(_, tensor)| pattern.matches(&tensor.name))
        .map(|(number, _)| number)
        .collect();
    match found.is_empty() {
        false => Ok(found),
        true => Err(Error::Usage(format!(
            "no tensor matches {}; `zstn ls` lists their names",
            pattern.text()
        ))),
    }
}
