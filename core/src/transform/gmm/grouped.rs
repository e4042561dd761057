//! Groups values by cell, so that most of a fitting round is done per cell. The
//! values are not summed in their original order, so the last bits of a mixture
//! differ from Python's. This is acceptable for samples, which differ anyway.

use alloc::vec;
use alloc::vec::Vec;

use super::cells::{CONTENDED, Cells, Winners};
use super::fit::Members;

/// Values in ascending order, grouped by cell.
#[derive(Debug, Clone)]
pub struct Grouped {
    pub values: Vec<f64>,
    groups: Vec<Group>,
    /// The component of each value. It is up to date only in contended cells.
    assigned: Vec<u8>,
}

/// The values of one cell.
#[derive(Debug, Clone)]
struct Group {
    cell: u16,
    end: usize,
    all: Members,
    /// The winner of the cell in the last round.
    winner: u16,
}

impl Grouped {
    /// Sorts `values` and groups them by cell.
    pub fn new(mut values: Vec<f64>, cells: &Cells) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        let mut groups: Vec<Group> = Vec::new();
        for (number, &value) in values.iter().enumerate() {
            let cell = cells.find(value);
            // Cell indices never decrease as values increase.
            if groups.last().is_none_or(|group| group.cell != cell) {
                groups.push(Group {
                    cell,
                    end: number,
                    all: Members::default(),
                    winner: 0,
                });
            }
            if let Some(group) = groups.last_mut() {
                group.end = number + 1;
                group.all.add(value);
            }
        }
        let assigned = vec![0; values.len()];
        Self {
            values,
            groups,
            assigned,
        }
    }

    /// Assigns all values, sums the members of each component, and returns the
    /// number of values that changed component.
    pub fn assign(&mut self, winners: &Winners, members: &mut [Members]) -> usize {
        let mut changed = 0;
        let mut start = 0;
        for group in &mut self.groups {
            let range = start..group.end;
            start = group.end;
            let winner = winners.of_cell(group.cell);
            let before = core::mem::replace(&mut group.winner, winner);
            let assigned = &mut self.assigned[range.clone()];
            match u8::try_from(winner) {
                Ok(component) => {
                    changed += match before {
                        CONTENDED => assigned.iter().filter(|b| **b != component).count(),
                        before if before == winner => 0,
                        _ => assigned.len(),
                    };
                    members[usize::from(component)].join(&group.all);
                }
                Err(_) => {
                    if let Ok(before) = u8::try_from(before) {
                        assigned.fill(before);
                    }
                    for (&value, assigned) in self.values[range].iter().zip(assigned) {
                        let component = winners.find(value, group.cell);
                        changed += usize::from(component != *assigned);
                        *assigned = component;
                        members[usize::from(component)].add(value);
                    }
                }
            }
        }
        changed
    }
}
