//! The protocol that suites in other languages use to run the table and its servers:
//! one JSON object per line, each answered by one line.

use std::collections::BTreeMap;
use std::io::{self, BufRead, Write};

use serde::Deserialize;
use serde_json::{Value, json};

use super::cells::{Operation, Phase, Side, Times};
use super::model::{self, TENSORS};
use super::server::CaseServer;
use super::table::{Kind, Table};
use crate::sha256;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Command {
    /// Returns the cells of a suite and the digests of the served tensors.
    Cells(Side),
    /// Starts a server for a case, and returns its id and URL.
    Start {
        case: String,
        operation: Operation,
        phase: Phase,
        times: Times,
        kind: Kind,
    },
    /// Returns the requests that the server with this id received.
    Log(usize),
    /// Stops the server with this id.
    Stop(usize),
}

/// Executes commands until the input ends.
///
/// # Errors
/// If a line is not a valid command, or the answers cannot be written.
pub fn run(commands: impl BufRead, mut answers: impl Write) -> io::Result<()> {
    let table = Table::load();
    let mut servers = BTreeMap::new();
    let mut started = 0;
    for line in commands.lines() {
        let command = serde_json::from_str(&line?)?;
        let answer = match command {
            Command::Cells(side) => json!({
                "cells": table.cells(side),
                "tensors": { "model": digests(1), "other": digests(2) },
            }),
            Command::Start {
                case,
                operation,
                phase,
                times,
                kind,
            } => match table.case(&case) {
                None => return Err(io::Error::other(format!("no case is {case:?}"))),
                Some(case) => {
                    let server = CaseServer::start(case, operation, phase, times, kind);
                    started += 1;
                    let answer = json!({ "id": started, "url": server.url });
                    servers.insert(started, server);
                    answer
                }
            },
            Command::Log(id) => json!({ "log": servers.get(&id).map(CaseServer::log) }),
            Command::Stop(id) => {
                servers.remove(&id);
                json!({})
            }
        };
        writeln!(answers, "{answer}")?;
        answers.flush()?;
    }
    Ok(())
}

/// Returns the SHA-256 of every tensor in the file made with `seed`.
fn digests(seed: u64) -> BTreeMap<&'static str, Value> {
    let plain = model::plain(seed);
    let digest = |name| (name, Value::from(sha256(model::tensor(&plain, name))));
    TENSORS.into_iter().map(digest).collect()
}
