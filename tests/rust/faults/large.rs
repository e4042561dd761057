//! Files with very many tensors, and files with a header of the maximum length.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use zstn_tests::tier;

use crate::act::Act;
use crate::child::{Launch, launch};
use crate::scratch::Cell;
use crate::snapshot;
use crate::table::{Place, Table, Verb};

/// Time limit of a run with a debug build on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

#[test]
fn large_files() {
    let table = Table::load();
    let mut problems = Vec::new();
    let verbs: BTreeSet<&str> = match tier::is_all() {
        true => {
            let names = table.verbs.iter().map(|verb| &*verb.name);
            // No vector has a delta of such a file.
            names.filter(|name| *name != "verify a base").collect()
        }
        false => ["pack", "unpack", "verify", "ls", "get"].into(),
    };
    for fault in table.faults(Place::Large) {
        let file = match fault.act {
            Act::ManyTensors => many_tensors(),
            Act::LongHeader => long_header(),
            act => panic!("{act:?} is not about size"),
        };
        let cell = Cell::with(["m.safetensors"].into_iter());
        fs::write(cell.work().join("m.safetensors"), file).expect("written");
        let packed = table.verbs.iter().find(|verb| verb.name == "pack");
        let made = run(&cell, packed.expect("a verb"));
        assert_eq!(made.status, 0, "{}", made.stderr);
        fs::rename(cell.work().join("out.zstn"), cell.work().join("m.zstn")).expect("renamed");
        for verb in table
            .verbs
            .iter()
            .filter(|verb| verbs.contains(&*verb.name))
        {
            let Some(expected) = fault.expected(&table, &verb.name) else {
                continue;
            };
            let ended = run(&cell, verb);
            for made in snapshot::of(&cell.work()).keys() {
                if made.to_string_lossy().starts_with("out") {
                    fs::remove_file(cell.work().join(made)).expect("removed");
                }
            }
            let name = format!("{}, {}", fault.name, verb.name);
            println!("{name}: {:.2} s, status {}", ended.seconds, ended.status);
            if ended.hung || !expected.outcome.status.contains(&ended.status) {
                problems.push(format!("{name}: status {}: {}", ended.status, ended.stderr));
            }
            for words in expected.says {
                if !ended.stderr.contains(words) {
                    problems.push(format!("{name}: it does not say {words:?}"));
                }
            }
            if !snapshot::of(&cell.tmp()).is_empty() {
                problems.push(format!("{name}: something was left in TMPDIR"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

fn run(cell: &Cell, verb: &Verb) -> crate::child::Ended {
    let arguments: Vec<_> = verb.arguments.iter().map(Into::into).collect();
    let running = launch(cell, &arguments, verb.stdin.as_deref(), &Launch::default());
    running.end_within(LIMIT)
}

fn with_header(header: &str, data: &[u8]) -> Vec<u8> {
    let len = (header.len() as u64).to_le_bytes();
    [&len[..], header.as_bytes(), data].concat()
}

/// Returns a checkpoint of 100 000 tensors of one byte each.
fn many_tensors() -> Vec<u8> {
    let mut header = String::from("{");
    for number in 0..100_000 {
        let comma = if number == 0 { "" } else { "," };
        let name = if number == 0 { "a" } else { "layer." };
        let suffix = if number == 0 {
            String::new()
        } else {
            number.to_string()
        };
        write!(
            header,
            "{comma}\"{name}{suffix}\":{{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[{number},{}]}}",
            number + 1
        )
        .expect("written");
    }
    header.push('}');
    with_header(&header, &[7; 100_000])
}

/// Returns a checkpoint with one tensor and a header of the maximum length, 100 MB.
fn long_header() -> Vec<u8> {
    const LEN: usize = 100_000_000;
    let tensor = "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},";
    let before = format!("{tensor}\"__metadata__\":{{\"note\":\"");
    let after = "\"}}";
    let note = "n".repeat(LEN - before.len() - after.len());
    with_header(&format!("{before}{note}{after}"), &[7])
}
