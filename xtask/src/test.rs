//! The verb `test`, which runs several test suites at a time.

use std::collections::VecDeque;
use std::env;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, bail};

use crate::args::Test;
use crate::disk;
use crate::node;
use crate::prepared::Prepared;
use crate::step::Report;
use crate::suites::{SUITES, Suite};
use crate::tier::Tier;
use crate::workspace::Workspace;

/// Number of suites that run at the same time. It exceeds the number of cores of a
/// usual machine, because some suites wait for downloads and others use only one core.
const AT_A_TIME: usize = 4;

pub fn run(workspace: &Workspace, report: &Report, options: &Test) -> Result<()> {
    // The path is read first, because tests rebuild this program's file.
    let this = env::current_exe().context("this program does not know its own path")?;
    let tier = match options.all {
        true => Tier::All,
        false => Tier::Default,
    };
    let chosen = chosen(options, tier)?;
    report.step("free disk space", |step| disk::check(workspace, step))?;
    report.step("Node and npm", node::check)?;
    let prepared = Prepared::new(workspace, report, tier, this);
    let queue = Mutex::new(VecDeque::from(chosen));
    let next = || {
        let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
        queue.pop_front()
    };
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(suite) = next() {
                    report.keep((suite.run)(&prepared));
                }
            });
        }
    });
    if options.all || options.table {
        report.table();
    }
    report.summary();
    report.kept()
}

/// Returns the suites that `options` select, in starting order.
fn chosen(options: &Test, tier: Tier) -> Result<Vec<&'static Suite>> {
    let names = || SUITES.iter().map(|suite| suite.name);
    for name in options.only.iter().chain(&options.skip) {
        if !names().any(|known| known == name) {
            let known: Vec<_> = names().collect();
            bail!("there is no suite {name}; there are {}", known.join(", "));
        }
    }
    let is_chosen = |suite: &&Suite| match options.only.is_empty() {
        true => suite.tier <= tier && !options.skip.iter().any(|name| name == suite.name),
        false => options.only.iter().any(|name| name == suite.name),
    };
    Ok(SUITES.iter().filter(is_chosen).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(options: &Test, tier: Tier) -> Vec<&'static str> {
        let chosen = chosen(options, tier).expect("suites that exist");
        chosen.iter().map(|suite| suite.name).collect()
    }

    #[test]
    fn all_includes_the_default() {
        let options = Test::default();
        let all = names(&options, Tier::All);
        assert_eq!(all.len(), SUITES.len());
        let default = names(&options, Tier::Default);
        assert!(default.len() < all.len());
        assert!(default.iter().all(|name| all.contains(name)));
    }

    #[test]
    fn suites_are_chosen_by_name() {
        let only = Test {
            only: vec!["fuzz".into()],
            ..Test::default()
        };
        assert_eq!(names(&only, Tier::Default), ["fuzz"]);
        let skip = Test {
            skip: vec!["chromium".into()],
            ..Test::default()
        };
        assert!(!names(&skip, Tier::All).contains(&"chromium"));
        let unknown = Test {
            only: vec!["chrome".into()],
            ..Test::default()
        };
        let error = chosen(&unknown, Tier::All).expect_err("no such suite");
        assert!(error.to_string().contains("chromium"), "{error}");
    }
}
