//! Environment variables that name a store's endpoint, region and credentials.

use std::fmt;

/// Environment variables of object stores: `AWS_…`, `AZURE_…`, `GOOGLE_…` and a few
/// others. The default is the environment of the process.
///
/// `Debug` output does not contain values.
#[derive(Clone, PartialEq, Eq)]
pub struct Environment {
    variables: Vec<(String, String)>,
}

const PREFIXES: [&str; 3] = ["AWS_", "AZURE_", "GOOGLE_"];
/// Variables without one of the prefixes that some services need.
const NAMES: [&str; 3] = ["SERVICE_ACCOUNT", "IDENTITY_ENDPOINT", "HOME"];

impl Environment {
    /// Returns the variables of this process. Those that are not Unicode are ignored.
    #[must_use]
    pub fn of_process() -> Self {
        // `vars()` would panic on a value that is not Unicode.
        let variables = std::env::vars_os();
        Self::from_pairs(variables.filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        }))
    }

    /// Returns an environment with these pairs of name and value and no others. Names
    /// that no object store uses are ignored.
    pub fn from_pairs<N, V>(pairs: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<String>,
        V: Into<String>,
    {
        let pairs = pairs
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()));
        let mut variables: Vec<(String, String)> = pairs
            .filter(|(name, _): &(String, String)| {
                NAMES.contains(&name.as_str()) || PREFIXES.iter().any(|p| name.starts_with(p))
            })
            .collect();
        variables.sort();
        Self { variables }
    }

    /// Returns the value of a variable, if it is set and not empty.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let mut variables = self.variables.iter();
        let (_, value) = variables.find(|(known, _)| known == name)?;
        (!value.is_empty()).then_some(value)
    }

    /// Returns the value of the first of these variables that is set and not empty.
    pub(crate) fn first(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.get(name))
    }

    /// Returns whether a variable is set to `1`, `true`, `on`, `yes` or `y`, in any
    /// case.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        let value = self.get(name).unwrap_or_default();
        ["1", "true", "on", "yes", "y"].contains(&value.to_ascii_lowercase().as_str())
    }

    /// Returns the variables that have a prefix and a value, sorted by name. Names are
    /// in lower case.
    pub(crate) fn with_prefix(&self, prefix: &str) -> impl Iterator<Item = (String, &str)> {
        self.variables
            .iter()
            .filter(move |(name, value)| name.starts_with(prefix) && !value.is_empty())
            .map(|(name, value)| (name.to_ascii_lowercase(), value.as_str()))
    }
}

impl Default for Environment {
    fn default() -> Self {
        Self::of_process()
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.variables.iter().map(|(name, _)| name);
        f.debug_set().entries(names).finish()
    }
}
