//! `zstn lfs status`

use std::borrow::Cow;

use clap::Args;
use serde_json::json;
use zstn::Result;
use zstn_hub::lfs::Repository;
use zstn_hub::lfs::settings::{self, Setting};

use super::super::stdout::print;
use super::super::{say, table};

#[derive(Args)]
pub struct Options {
    /// Print the result as JSON (docs/json.md)
    #[arg(long)]
    pub json: bool,
}

pub fn run(options: &Options) -> Result<()> {
    let settings = settings::list()?;
    let repository = Repository::find()?;
    let log = repository
        .as_ref()
        .map(Repository::filter_log)
        .transpose()?;
    let log = log.filter(|log| log.is_file());
    if options.json {
        return print(json!({
            "settings": settings.iter().map(setting_json).collect::<Vec<_>>(),
            "filter_log": log,
        }));
    }
    if settings.is_empty() {
        return print("nothing is installed here; run `zstn lfs install`");
    }
    table::print(["SCOPE", "SETTING", "VALUE"], || {
        settings.iter().map(|setting| {
            [
                Cow::Borrowed(&*setting.scope),
                Cow::Borrowed(&*setting.key),
                Cow::Borrowed(&*setting.value),
            ]
        })
    })?;
    warn(&settings);
    if let Some(log) = log {
        say!("note: errors of the filter are in {}", log.display());
    }
    if let Some(file) = repository.and_then(|repository| repository.lfsconfig())
        && std::fs::read_to_string(&file).is_ok_and(|text| text.contains("customtransfer"))
    {
        say!(
            "warning: git-lfs ignores the transfer agents in {}; run `zstn lfs install` in every \
             clone instead",
            file.display()
        );
    }
    Ok(())
}

fn setting_json(setting: &Setting) -> serde_json::Value {
    json!({"scope": setting.scope, "key": setting.key, "value": setting.value})
}

/// Prints a warning for an installed program that no longer exists.
fn warn(settings: &[Setting]) {
    for setting in settings {
        let program = match &*setting.key {
            "lfs.customtransfer.zstn.path" => &*setting.value,
            "lfs.extension.zstn.clean" => setting.value.split(' ').next().unwrap_or_default(),
            _ => continue,
        };
        if program.contains(std::path::is_separator) && !std::path::Path::new(program).is_file() {
            say!("warning: {program} does not exist; run `zstn lfs install` again");
        }
    }
}
