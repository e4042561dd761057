//! The names that most files use.

pub use std::path::{Path, PathBuf};
pub use std::process::Command;

pub use anyhow::{Context, Result, bail, ensure};
pub use fs_err as fs;

pub(crate) use crate::cargo::{self, cargo};
pub(crate) use crate::paths::{self, cache, path, program, target};
pub(crate) use crate::process::{self, Words, ask, cmd, find};
pub(crate) use crate::steps::{self, Background, Shared, Step, check, step};
pub(crate) use crate::test::Tier;
