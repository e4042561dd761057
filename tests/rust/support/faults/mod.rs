//! The table of faults in `tests/faults`: how a server or disk misbehaves, and the
//! outcome that every test suite expects.

pub mod answer;
pub mod cells;
pub mod control;
pub mod files;
pub mod gzip;
pub mod model;
mod perform;
pub mod report;
pub mod server;
pub mod table;

pub use cells::{Cell, Expected, Operation, Phase, Side, Times};
pub use server::CaseServer;
pub use table::{Kind, Table};
