//! The tests of the C library.

use anyhow::Result;

use super::install::Installed;
use crate::step::Step;
use crate::workspace::Workspace;

pub struct Tools {}

impl Tools {
    pub fn ready(_workspace: &Workspace, _step: &mut Step) -> Result<Self> {
        Ok(Self {})
    }
}

pub fn run(
    _workspace: &Workspace,
    _step: &mut Step,
    _tools: &Tools,
    installed: &Installed,
) -> Result<()> {
    installed.ask(&["--cflags"])?;
    Ok(())
}
