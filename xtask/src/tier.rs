//! How much is tested.

use std::process::Command;

/// The tiers of tests. [`Tier::All`] includes [`Tier::Default`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Every push: one representative of each kind of fault, and WebAssembly modules
    /// that compile fast.
    Default,
    /// Every night and before a release: whole tables of faults, and the modules
    /// that are published.
    All,
}

impl Tier {
    /// Makes the tests that `command` runs go through whole tables
    /// (`tests/rust/support/tier.rs`, `tests/js/support/tier.mjs`).
    pub fn apply(self, command: &mut Command) -> &mut Command {
        match self {
            Self::Default => command.env_remove("ZSTN_TESTS"),
            Self::All => command.env("ZSTN_TESTS", "all"),
        }
    }
}
