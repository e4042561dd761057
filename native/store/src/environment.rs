//! The variables that say where a store is and who asks.

use std::fmt;

/// Environment variables of object stores: `AWS_…`, `AZURE_…` and `GOOGLE_…`.
/// Those of the process by default.
///
/// `Debug` output does not contain values.
#[derive(Clone, PartialEq, Eq)]
pub struct Environment {
    variables: Vec<(String, String)>,
}

const PREFIXES: [&str; 3] = ["AWS_", "AZURE_", "GOOGLE_"];
/// Read by some services under other names.
const NAMES: [&str; 3] = ["SERVICE_ACCOUNT", "IDENTITY_ENDPOINT", "HOME"];

impl Environment {
    /// Returns the variables of this process.
    #[must_use]
    pub fn of_process() -> Self {
        // Not `vars()`: it panics at text that is not Unicode.
        let variables = std::env::vars_os();
        Self::from_pairs(variables.filter_map(|(name, value)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        }))
    }

    /// Returns these variables alone, given as name and value. Names of no object
    /// store are left out.
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

    /// Returns the first of these variables that is set and not empty.
    pub(crate) fn first(&self, names: &[&str]) -> Option<&str> {
        names.iter().find_map(|name| self.get(name))
    }

    /// Returns whether a variable is set to something that means yes.
    pub(crate) fn is_on(&self, name: &str) -> bool {
        let value = self.get(name).unwrap_or_default();
        ["1", "true", "on", "yes", "y"].contains(&value.to_ascii_lowercase().as_str())
    }

    /// Returns name in lower case and value of every variable with a prefix, in
    /// the order of their names.
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
