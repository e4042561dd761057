//! `zstn worker`: from a push to a hub to a commit with packed files.

mod desk;
mod hub_client;
mod killed;
mod notifications;
mod packing;

use desk::Desk;
