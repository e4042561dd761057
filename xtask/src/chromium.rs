//! Chromium, for tests that need a real browser.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::apt;
use crate::process;
use crate::step::Step;

const NAMES: &[&str] = &[
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];
const MAC: &[&str] = &[
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
];
const PACKAGES: &[&str] = &["chromium"];

/// Returns the browser for the tests, and installs one if there is none.
pub fn ready(step: &mut Step) -> Result<PathBuf> {
    let browser = match find()? {
        Some(browser) => browser,
        None => {
            apt::install(step, PACKAGES, "some tests run in a real browser")
                .with_context(instructions)?;
            find()?.with_context(instructions)?
        }
    };
    step.note(browser.display().to_string());
    Ok(browser)
}

fn find() -> Result<Option<PathBuf>> {
    if let Some(named) = env::var_os("CHROMIUM").filter(|named| !named.is_empty()) {
        let named = PathBuf::from(named);
        if !named.is_file() {
            bail!("CHROMIUM names {}, which is not a file", named.display());
        }
        return Ok(Some(named));
    }
    let installed = NAMES.iter().find_map(|name| process::find(name));
    Ok(installed.or_else(|| MAC.iter().map(PathBuf::from).find(|path| path.is_file())))
}

fn instructions() -> String {
    format!(
        "no Chromium or Chrome was found. Do one of these, then try again:\n\
         \n    {}   (Debian)\n    brew install --cask chromium   (macOS)\n    \
         export CHROMIUM=/path/to/chrome   (any Chromium you have)\n    \
         cargo xtask test --skip chromium   (without these tests)\n",
        apt::by_hand(PACKAGES)
    )
}
