//! Scripts of `tests/package.json`, with the programs that the tests use.

use std::process::Command;

use anyhow::Result;

use crate::step::Step;
use crate::workspace::Workspace;
use crate::{faults, node, programs};

/// Returns `npm run SCRIPT` in the tests, with the paths of the dev builds of the
/// command line, the fault server and the stub hub.
pub fn npm(workspace: &Workspace, script: &str) -> Command {
    let mut npm = node::npm();
    npm.args(["run", script, "--workspace", "zstn-tests"])
        .env("ZSTN_BIN", workspace.zstn("debug"))
        .env("ZSTN_FAULT_SERVER", faults::server(workspace))
        .env("ZSTN_STUB_HUB", programs::stub_hub(workspace))
        // This reporter lists failures at the end of the log.
        .env("NODE_OPTIONS", "--test-reporter=spec");
    npm
}

/// Checks the types of all packages.
pub fn types(step: &mut Step) -> Result<()> {
    step.run(node::npm().args(["run", "check", "--workspaces", "--if-present"]))
}
