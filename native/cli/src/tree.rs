//! `zstn ls --tree`: tensors grouped by the components of their names.

use std::borrow::Cow;
use std::collections::HashMap;

use zstn::Result;
use zstn_core::model::TensorInfo;

use super::{size, table};

/// Maximum number of components of a name; the rest of a longer name is one component.
const MAX_DEPTH: usize = 32;

/// A node of the tree: a component that several names share, or the last component of
/// one.
#[derive(Default)]
struct Branch<'a> {
    part: &'a str,
    children: Vec<usize>,
    by_part: HashMap<&'a str, usize>,
    tensor: Option<&'a TensorInfo>,
    tensors: usize,
    original_bytes: u64,
    stored_bytes: u64,
}

/// Returns the number of stored bytes that a tensor takes, or 0 if it shares another
/// tensor's data.
pub fn own_stored_bytes(tensor: &TensorInfo) -> u64 {
    match tensor.alias_of {
        Some(_) => 0,
        None => tensor.stored_share_bytes(),
    }
}

/// Prints a tree of `tensors`, with branches in the order of their first tensor.
/// Branches below `depth` are summed.
pub fn print<'a>(
    tensors: impl Iterator<Item = &'a TensorInfo>,
    depth: Option<usize>,
) -> Result<()> {
    let branches = build(tensors);
    let lines = lines(&branches, depth.unwrap_or(usize::MAX));
    let headings = [
        "name", ">tensors", "dtype", "shape", ">size", ">stored", ">ratio",
    ];
    table::print(headings, || {
        lines.iter().map(|line| row(&branches[line.branch], line))
    })
}

/// Builds a tree of the components of names: "a.b" is a child of "a". Index 0 is the root,
/// which counts all tensors.
fn build<'a>(tensors: impl Iterator<Item = &'a TensorInfo>) -> Vec<Branch<'a>> {
    let mut branches = vec![Branch::default()];
    for tensor in tensors {
        let mut at = 0;
        branches[0].add(tensor);
        for part in tensor.name.splitn(MAX_DEPTH, '.') {
            let new = branches.len();
            at = *branches[at].by_part.entry(part).or_insert(new);
            if at == new {
                branches.push(Branch {
                    part,
                    ..Branch::default()
                });
            }
            branches[at].add(tensor);
        }
        branches[at].tensor = Some(tensor);
    }
    for branch in &mut branches {
        branch.children = branch.by_part.values().copied().collect();
        // Branches are numbered in the order of the tensors.
        branch.children.sort_unstable();
    }
    branches
}

impl Branch<'_> {
    fn add(&mut self, tensor: &TensorInfo) {
        self.tensors += 1;
        self.original_bytes += tensor.original_len_bytes();
        self.stored_bytes += own_stored_bytes(tensor);
    }
}

/// A line of the printed tree.
struct Line {
    indent: usize,
    name: String,
    branch: usize,
}

/// Returns the lines in order. A branch with a single child and no tensor of its own is
/// joined with that child.
fn lines(branches: &[Branch], depth: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut pending: Vec<(usize, usize)> = Vec::new();
    let below = |branch: usize, indent: usize, pending: &mut Vec<(usize, usize)>| {
        let children = branches[branch].children.iter().rev();
        pending.extend(children.map(|child| (*child, indent)));
    };
    below(0, 0, &mut pending);
    while let Some((mut branch, indent)) = pending.pop() {
        let mut name = String::from(branches[branch].part);
        while let ([child], None) = (&branches[branch].children[..], branches[branch].tensor) {
            branch = *child;
            name.push('.');
            name.push_str(branches[branch].part);
        }
        lines.push(Line {
            indent,
            name,
            branch,
        });
        if indent + 1 < depth {
            below(branch, indent + 1, &mut pending);
        }
    }
    lines
}

fn row<'a>(branch: &'a Branch<'a>, line: &'a Line) -> [Cow<'a, str>; 7] {
    let tensor = branch.tensor.filter(|_| branch.children.is_empty());
    [
        format!("{:width$}{}", "", line.name, width = 2 * line.indent).into(),
        match tensor {
            Some(_) => "".into(),
            None => branch.tensors.to_string().into(),
        },
        tensor.map_or("".into(), |tensor| tensor.dtype.name().into()),
        tensor.map_or("".into(), |tensor| table::shape(&tensor.shape).into()),
        size::bytes(branch.original_bytes).into(),
        size::bytes(branch.stored_bytes).into(),
        size::ratio(branch.original_bytes, branch.stored_bytes).into(),
    ]
}
