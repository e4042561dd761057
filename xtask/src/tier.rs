//! The tiers of tests.

use std::process::Command;

/// A tier of tests. [`Tier::All`] includes [`Tier::Default`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// For every push: one representative of each kind of fault, and WebAssembly
    /// modules that compile fast.
    Default,
    /// For every night and before a release: whole tables of faults, and the published
    /// modules.
    All,
}

impl Tier {
    /// Makes the tests that `command` runs use the whole tables in [`Tier::All`]
    /// (`tests/rust/support/tier.rs`, `tests/js/support/tier.mjs`).
    pub fn apply(self, command: &mut Command) -> &mut Command {
        match self {
            Self::Default => command.env_remove("ZSTN_TESTS"),
            Self::All => command.env("ZSTN_TESTS", "all"),
        }
    }
}
