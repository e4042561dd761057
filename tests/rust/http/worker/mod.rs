//! `zstn worker`, from a push to a hub to a commit with the packed files.

mod desk;
mod failures;
mod hub_client;
#[cfg(unix)]
mod killed;
mod notifications;
mod packing;
mod plans;

use desk::Desk;
