//! Shares of a plan.

use std::collections::{HashMap, HashSet};
use std::str::FromStr;

use super::Row;

/// A share of a plan, which is split into `count` shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// Number of the share, from 0.
    pub index: usize,
    /// Number of shares.
    pub count: usize,
}

impl Shard {
    /// The only share of an unsplit plan.
    pub const ALL: Self = Self { index: 0, count: 1 };
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text
            .split_once('/')
            .and_then(|(index, count)| Some((index.parse().ok()?, count.parse().ok()?)));
        match parsed {
            Some((index, count)) if index < count => Ok(Self { index, count }),
            _ => Err("a share is i/n, with i from 0 to n - 1, like 0/8".into()),
        }
    }
}

/// Returns the rows of one share. Of rows with the same key, only the first is used.
/// Rows are assigned alternately; a row with bases is in the share of its last base, so
/// that no share waits for another. Together, the shares contain every key once.
#[must_use]
pub fn shard(rows: &[Row], shard: Shard) -> Vec<&Row> {
    let mut seen = HashSet::new();
    let unique: Vec<&Row> = rows.iter().filter(|row| seen.insert(&*row.key)).collect();
    // The key that determines the share: the last base if the plan contains it,
    // otherwise the row's own key.
    let root = |row: &&Row| -> String {
        let base = row.bases.last().filter(|base| seen.contains(&***base));
        base.unwrap_or(&row.key).clone()
    };
    let mut numbers: HashMap<String, usize> = HashMap::new();
    for row in unique.iter().filter(|row| root(row) == row.key) {
        numbers.insert(row.key.clone(), numbers.len());
    }
    let is_own = |row: &&Row| {
        let number = numbers.get(&root(row)).copied().unwrap_or_default();
        number % shard.count.max(1) == shard.index
    };
    unique.into_iter().filter(is_own).collect()
}
